// spjit cache export and import: kernels on their way from one cache to another.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "artifact/bundle_impl.hpp"
#include "spjit/error.hpp"
#include "tools/commands/cache_actions.hpp"
#include "tools/commands/cache_bundle.hpp"
#include "tools/options/bundle_options.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/kernel_cells.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;

struct ExportOptions : CacheActionOptions {
  std::vector<std::string> key_prefixes;
  fs::path out;
  std::string private_key;
};

struct ImportOptions : CacheActionOptions {
  BundleReadOptions bundle;
};

ExitCode run_export(const ExportOptions& options) {
  const CacheStore store = open_store(options, CacheMustExist::yes);
  std::vector<std::string> keys = select_keys(store, options.key_prefixes);
  require_apart("--out", options.out, {options.private_key});
  BundleFileWriter bundle(options.out, read_private_key(options.private_key));
  const CacheExport result = export_cache(store, std::move(keys), bundle);
  // Of nothing but damaged kernels there is no bundle: what was there stays.
  const bool is_made = result.entries > 0 || result.left_out.empty();
  const std::int64_t bytes = is_made ? bundle.finish() : 0;
  Json left_out = Json::array();
  for (const auto& [key, problem] : result.left_out) {
    print_error(fmt::format("cache entry {}: left out: {}", key, printable(problem)));
    left_out.push_back({{"key", key}, {"problem", problem}});
  }
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"bundle", options.out.string()},
                {"entries", result.entries},
                {"bytes", bytes},
                {"left_out", std::move(left_out)}});
  } else {
    print(kernels_line(options.out, static_cast<std::size_t>(result.entries), bytes));
  }
  return exit_code(static_cast<std::size_t>(result.entries) + result.left_out.size(),
                   result.left_out.size());
}

ExitCode run_import(const ImportOptions& options) {
  const CacheStore store = open_store(options, CacheMustExist::no);
  const CacheImport result = import_cache(store, open_bundle(options.bundle));
  if (options.json) {
    print_json({{"cache", store.root().string()},
                {"bundle", options.bundle.file.string()},
                {"imported", result.imported},
                {"already_there", result.already_there},
                {"other_versions", result.other_versions},
                {"without_key", result.without_key},
                {"bytes", result.bytes}});
    return ExitCode::ok;
  }
  print(fmt::format("{}: imported {} kernels, {}; {} were there already\n",
                    shown(options.bundle.file), result.imported, size_text(result.bytes),
                    result.already_there));
  if (result.other_versions > 0) {
    print_note(fmt::format("{}: {} kernels of other versions of spjit were skipped",
                           options.bundle.file.string(), result.other_versions));
  }
  if (result.without_key > 0) {
    print_note(fmt::format("{}: {} kernels without a key of a cache were skipped",
                           options.bundle.file.string(), result.without_key));
  }
  return ExitCode::ok;
}

}  // namespace

Subcommand add_cache_export(CLI::App& cache) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* command = add_cache_action(cache, *options, "export");
  command->add_option("KEY-PREFIX", options->key_prefixes, "The first digits of keys.");
  command->add_option("--out", options->out, "The bundle.")
      ->check(not_empty())
      ->type_name("FILE")
      ->required();
  add_signing_key(*command, options->private_key);
  return {command, [options] { return run_export(*options); }};
}

Subcommand add_cache_import(CLI::App& cache) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* command = add_cache_action(cache, *options, "import");
  add_bundle_file(*command, options->bundle);
  return {command, [options] { return run_import(*options); }};
}

}  // namespace spjit::cli
