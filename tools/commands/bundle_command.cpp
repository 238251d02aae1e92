// spjit bundle: ls, show, verify, merge and filter.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>

#include "artifact/kernel_files.hpp"
#include "compiler/stored_kernel_check.hpp"
#include "spjit/bundle.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/bundle_options.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/model_inputs.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

struct BundleCommandOptions : BundleReadOptions {
  std::string layer;
  bool run = false;
  bool json = false;
};

struct FilterOptions : BundleReadOptions {
  std::vector<std::string> targets;  ///< empty: all
  std::vector<std::string> layers;   ///< names or globs; empty: all
  std::filesystem::path out;
  std::string private_key;
  bool json = false;
};

struct MergeOptions {
  std::vector<std::filesystem::path> files;
  std::filesystem::path out;
  std::string public_key;
  std::string private_key;
  bool any_owner = false;
  bool json = false;
};

std::int64_t bytes_of(const BundleKernel& kernel, const BundleIndex& index) {
  std::int64_t bytes = 0;
  for (const BundleFileName& file : kernel.files) bytes += index.blobs[file.blob].bytes;
  return bytes;
}

/// The record alone says what the kernel is; the index adds what it is called and its files.
Json describe(const BundleKernel& kernel, const BundleIndex& index) {
  Json files = Json::array();
  for (const BundleFileName& file : kernel.files) {
    const BundleBlob& blob = index.blobs[file.blob];
    files.push_back({{"name", file.name},
                     {"offset", blob.offset},
                     {"bytes", blob.bytes},
                     {"checksum", blob.checksum},
                     {"sha256", blob.sha256}});
  }
  return {{"layer", kernel.layer},     {"key", kernel.key},
          {"spjit", kernel.spjit},     {"bytes", bytes_of(kernel, index)},
          {"files", std::move(files)}, {"kernel", Json(kernel.record)}};
}

Json describe(const BundleFile& bundle) {
  Json kernels = Json::array();
  for (const BundleKernel& kernel : bundle.index().kernels) {
    kernels.push_back(describe(kernel, bundle.index()));
  }
  const std::optional<BundleSignature>& signature = bundle.signature();
  return {{"bundle", bundle.path().string()},
          {"bytes", bundle.bytes()},
          {"signed_by", signature ? Json(hex_text(signature->key)) : Json(nullptr)},
          {"kernels", std::move(kernels)}};
}

/// "signed by d75a...; not checked, for no public key was given".
std::string signature_text(const BundleFile& bundle, bool is_checked) {
  if (!bundle.signature()) return "not signed";
  return fmt::format("signed by {}{}", hex_text(bundle.signature()->key),
                     is_checked ? "" : " (not checked without --public-key)");
}

std::string summary(const BundleFile& bundle, const BundleCommandOptions& options) {
  return fmt::format("{}: {} kernels, {}, {}\n", shown(bundle.path()),
                     bundle.index().kernels.size(), size_text(bundle.bytes()),
                     signature_text(bundle, !options.public_key.empty()));
}

ExitCode list(const BundleCommandOptions& options) {
  const BundleFile bundle = open_bundle(options);
  if (options.json) {
    print_json(describe(bundle));
    return ExitCode::ok;
  }
  using enum Column::Align;
  std::vector<Column> columns = {{"name", left}, {"size"}};
  for (Column& column : kernel_columns()) columns.push_back(std::move(column));
  Table table(std::move(columns));
  for (const BundleKernel& kernel : bundle.index().kernels) {
    std::vector<std::string> row = {one_line(kernel.layer),
                                    size_text(bytes_of(kernel, bundle.index()))};
    for (std::string& cell : kernel_cells(kernel.record)) row.push_back(std::move(cell));
    table.add(std::move(row));
  }
  if (!bundle.index().kernels.empty()) print(table.text(inspect_stdout()) + "\n");
  print(summary(bundle, options));
  return ExitCode::ok;
}

ExitCode show(const BundleCommandOptions& options) {
  const BundleFile bundle = open_bundle(options);
  Json kernels = Json::array();
  for (const BundleKernel& kernel : bundle.index().kernels) {
    if (kernel.layer == options.layer) kernels.push_back(describe(kernel, bundle.index()));
  }
  if (kernels.empty()) {
    throw IoError(fmt::format("{}: there is no layer '{}'; 'spjit bundle ls' lists them",
                              options.file.string(), options.layer));
  }
  print_json(kernels);
  return ExitCode::ok;
}

/// What became of a kernel that was to be run.
struct KernelRun {
  const BundleKernel* kernel;
  std::string target;
  StoredVerdict verdict;
};

KernelRun run_kernel(const BundleFile& bundle, const BundleKernel& kernel) {
  KernelRun run{&kernel, "", {}};
  try {
    const auto loaded =
        load_kernel_files(bundle.read(kernel), kernel.record, HostDevice{nullptr, true});
    run.target = kernel.record.at("target").get<std::string>();
    run.verdict = check_stored_kernel(*loaded, VerifyMode::sampled);
  } catch (const IoError&) {
    throw;
  } catch (const std::bad_alloc&) {
    run.verdict.not_checked = "out of memory";
  } catch (const std::exception& error) {
    run.verdict.problem = error.what();
  }
  return run;
}

std::vector<KernelRun> run_all(const BundleFile& bundle) {
  std::vector<KernelRun> runs;
  for (const BundleKernel& kernel : bundle.index().kernels) {
    const KernelRun& run = runs.emplace_back(run_kernel(bundle, kernel));
    if (run.verdict.problem.empty()) continue;
    print_error(fmt::format("{}: layer '{}' for {}: {}", shown(bundle.path()),
                            one_line(kernel.layer), run.target, one_line(run.verdict.problem)));
  }
  return runs;
}

/// "12 kernels ran and are right; 4 not checked: needs AVX-512"
std::string runs_text(const std::vector<KernelRun>& runs) {
  std::size_t passed = 0;
  std::map<std::string, std::size_t> reasons;
  std::string notes;
  for (const KernelRun& run : runs) {
    if (run.verdict.passed()) ++passed;
    if (!run.verdict.not_checked.empty()) ++reasons[run.verdict.not_checked];
    if (run.verdict.note.empty()) continue;
    notes +=
        fmt::format("{} for {}: {}\n", one_line(run.kernel->layer), run.target, run.verdict.note);
  }
  std::string text = fmt::format("{} kernels ran and are right", passed);
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("; {} not checked: {}", count, one_line(reason));
  }
  return text + "\n" + notes;
}

Json describe(const std::vector<KernelRun>& runs) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json list = Json::array();
  for (const KernelRun& run : runs) {
    const StoredVerdict& verdict = run.verdict;
    list.push_back({{"layer", run.kernel->layer},
                    {"target", run.target},
                    {"passed", verdict.passed()},
                    {"error", text_or_null(verdict.problem)},
                    {"not_checked", text_or_null(verdict.not_checked)},
                    {"note", text_or_null(verdict.note)},
                    {"max_abs_error", verdict.verification.max_abs_error},
                    {"max_error_over_bound", verdict.verification.max_error_over_bound}});
  }
  return list;
}

ExitCode verify(const BundleCommandOptions& options) {
  const BundleFile bundle = open_bundle(options);
  bundle.verify();
  std::vector<KernelRun> runs;
  if (options.run) runs = run_all(bundle);
  if (options.json) {
    const std::optional<BundleSignature>& signature = bundle.signature();
    print_json({{"bundle", bundle.path().string()},
                {"kernels", bundle.index().kernels.size()},
                {"bytes", bundle.bytes()},
                {"signed_by", signature ? Json(hex_text(signature->key)) : Json(nullptr)},
                {"signature_checked", !options.public_key.empty()},
                {"runs", options.run ? describe(runs) : Json(nullptr)}});
  } else {
    print(summary(bundle, options) + (options.run ? runs_text(runs) : ""));
  }
  const auto failures = static_cast<std::size_t>(std::ranges::count_if(
      runs, [](const KernelRun& run) { return !run.verdict.problem.empty(); }));
  return exit_code(runs.size(), failures);
}

ExitCode report_made(const std::filesystem::path& out, BundleWriter& writer, bool json) {
  const std::size_t kernels = writer.kernels();
  const std::int64_t bytes = writer.finish();
  if (json) {
    print_json({{"bundle", out.string()}, {"kernels", kernels}, {"bytes", bytes}});
  } else {
    print(kernels_line(out, kernels, bytes));
  }
  return ExitCode::ok;
}

ExitCode merge(const MergeOptions& options) {
  require_apart("--out", options.out, {options.private_key, options.public_key});
  BundleWriter writer(options.out, options.private_key);
  for (const std::filesystem::path& file : options.files) {
    writer.add(
        Bundle::open(file, {.public_key = options.public_key, .any_owner = options.any_owner}));
  }
  return report_made(options.out, writer, options.json);
}

/// "host-avx512:zen4", as --target of compile.
std::string target_text(const BundleEntry& entry) {
  const std::string code = entry.target.code();
  return entry.card.empty() ? code : fmt::format("{}:{}", code, entry.card);
}

/// What a filter wants of targets, or of layers; of nothing named all.
class Wanted {
 public:
  explicit Wanted(const std::vector<std::string>& names) : names_(names) {}

  /// Whether an entry called `name` is wanted: one for which `is_of(wanted)` holds.
  template <typename IsOf>
  bool takes(const std::string& name, const IsOf& is_of) {
    there_.insert(name);
    bool is_wanted = names_.empty();
    for (const std::string& wanted : names_) {
      if (!is_of(wanted)) continue;
      is_wanted = true;
      found_.insert(wanted);
    }
    return is_wanted;
  }

  /// Throws IoError for a wanted one that no entry is of.
  void require_all(const std::filesystem::path& file, const char* what) const {
    for (const std::string& one : names_) {
      if (found_.contains(one)) continue;
      throw IoError(fmt::format("{}: there is no kernel of the {} '{}'; the bundle has {}",
                                shown(file), what, one_line(one),
                                one_line(fmt::format("{}", fmt::join(there_, ", ")))));
    }
  }

 private:
  const std::vector<std::string>& names_;
  std::set<std::string> there_;
  std::set<std::string> found_;
};

ExitCode filter(const FilterOptions& options) {
  require_apart("--out", options.out, {options.file, options.private_key, options.public_key});
  const Bundle bundle = Bundle::open(
      options.file, {.public_key = options.public_key, .any_owner = options.any_owner});
  Wanted targets(options.targets);
  Wanted layers(options.layers);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < bundle.entries().size(); ++i) {
    const BundleEntry& entry = bundle.entries()[i];
    const std::string target = target_text(entry);
    const bool has_target = targets.takes(target, [&](const std::string& wanted) {
      return wanted == target || wanted == entry.target.code();
    });
    const bool has_layer = layers.takes(
        entry.layer, [&](const std::string& wanted) { return matches(wanted, entry.layer); });
    if (has_target && has_layer) kept.push_back(i);
  }
  targets.require_all(options.file, "target");
  layers.require_all(options.file, "layer");
  if (kept.empty()) {
    throw IoError(
        fmt::format("{}: there is no kernel of these layers for these targets; 'spjit "
                    "bundle ls' lists them",
                    shown(options.file)));
  }
  BundleWriter writer(options.out, options.private_key);
  for (const std::size_t entry : kept) writer.add(bundle, entry);
  return report_made(options.out, writer, options.json);
}

CLI::App* add_action(CLI::App& bundle, const std::string& action, bool& json) {
  CLI::App* command = bundle.add_subcommand(action);
  set_manual(*command, "bundle_" + action);
  add_json(*command, json);
  return command;
}

CLI::App* add_reader(CLI::App& bundle, const std::string& action, BundleCommandOptions& options) {
  CLI::App* command = add_action(bundle, action, options.json);
  add_bundle_file(*command, options);
  return command;
}

CLI::App* add_merge(CLI::App& bundle, MergeOptions& options) {
  CLI::App* command = add_action(bundle, "merge", options.json);
  command->add_option("FILE", options.files, "The bundles.")->check(not_empty())->required();
  command->add_option("-o,--out", options.out, "The bundle to make.")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  add_trust(*command, options.public_key, options.any_owner);
  add_signing_key(*command, options.private_key);
  return command;
}

CLI::App* add_filter(CLI::App& bundle, FilterOptions& options) {
  CLI::App* command = add_action(bundle, "filter", options.json);
  add_bundle_file(*command, options);
  command
      ->add_option("--target", options.targets,
                   "Keep kernels for these targets, separated by commas, such as "
                   "host-avx512:zen4,sm_90. Without a CPU or card: of any.")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TARGETS");
  command
      ->add_option("--layer", options.layers,
                   "Keep layers of this name or glob. May be repeated: layers of any of them.")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  command->add_option("-o,--out", options.out, "The bundle to make.")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  add_signing_key(*command, options.private_key);
  return command;
}

}  // namespace

Subcommand add_bundle(CLI::App& app) {
  const auto options = std::make_shared<BundleCommandOptions>();
  const auto merged = std::make_shared<MergeOptions>();
  const auto filtered = std::make_shared<FilterOptions>();
  CLI::App* command = app.add_subcommand("bundle");
  set_manual(*command, "bundle");
  command->require_subcommand(1);
  std::vector<Subcommand> actions;
  actions.push_back({add_reader(*command, "ls", *options), [options] { return list(*options); }});
  CLI::App* shown_layer = add_reader(*command, "show", *options);
  shown_layer->add_option("LAYER", options->layer, "The name of a layer.")->required();
  actions.push_back({shown_layer, [options] { return show(*options); }});
  CLI::App* verified = add_reader(*command, "verify", *options);
  verified->add_flag("--run", options->run,
                     "Run each kernel that this CPU can run and check it against float64.");
  actions.push_back({verified, [options] { return verify(*options); }});
  actions.push_back({add_merge(*command, *merged), [merged] { return merge(*merged); }});
  actions.push_back({add_filter(*command, *filtered), [filtered] { return filter(*filtered); }});
  return {command, [actions] {
            // The parser requires one of them.
            return std::ranges::find_if(
                       actions, [](const Subcommand& action) { return action.parser->parsed(); })
                ->run();
          }};
}

}  // namespace spjit::cli
