// spjit collect: times tiles of many matrices, to train rank models; compiles those of GPUs first.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "artifact/tuned_families.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "plan/problem.hpp"
#include "proxy/search.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/inputs.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct CollectCommandOptions {
  std::vector<std::string> files;
  fs::path root;
  fs::path out;
  fs::path compile_only;  ///< a folder of compiled tiles, to add to
  fs::path time;          ///< the same, to time
  bool modelled = false;  ///< by the clock
  std::int64_t groups = 100;
  std::vector<std::int64_t> n = {32, 128, 512};
  CollectOptions collect;
};

/// A matrix and n.
struct Source {
  std::string name;
  nlohmann::json recipe;
  std::int64_t n = 1;
  std::function<CsrMatrix()> load;

  [[nodiscard]] Problem problem() const {
    Problem result;
    result.a = load();
    result.n = n;
    return checked_problem(result);
  }
};

/// A line of a file of samples that is not there yet.
struct Job {
  std::string name;
  std::function<std::string()> run;  ///< makes it and says what it made
};

const TunedFamily& family_of(const CollectCommandOptions& options) {
  return tuned_family(options.collect.compile.target.backend());
}

std::string suffix(const CollectCommandOptions& options) {
  return " " + family_of(options).device_name(options.collect.compile);
}

std::vector<Source> synthetic_sources(const CollectCommandOptions& options) {
  const TunedFamily& family = family_of(options);
  const std::string end = suffix(options);
  std::vector<Source> sources;
  for (std::int64_t i = 0; i < options.groups; ++i) {
    const SampleRecipe recipe = family.draw(options.collect.seed, i);
    sources.push_back({name_of(recipe) + end, to_json(recipe), recipe.n,
                       [recipe] { return generate_matrix(recipe.generate); }});
  }
  return sources;
}

/// `file` below the folder that all files have in common with --root.
std::string name_below(const fs::path& file, const fs::path& root) {
  if (root.empty()) return file.generic_string();
  return file.lexically_proximate(root).generic_string();
}

std::vector<Source> file_sources(const CollectCommandOptions& options) {
  const std::string end = suffix(options);
  std::vector<Source> sources;
  for (const Input& input : expand_inputs(options.files)) {
    if (!input.problem.empty()) throw InvalidArgument(input.problem);
    const std::string file = name_below(input.path, options.root);
    for (const std::int64_t n : options.n) {
      sources.push_back(
          {fmt::format("{} n{}{}", file, n, end), {{"file", file}}, n, [path = input.path] {
             return load_matrix(path);
           }});
    }
  }
  return sources;
}

std::vector<Source> sources_of(const CollectCommandOptions& options) {
  return options.files.empty() ? synthetic_sources(options) : file_sources(options);
}

/// Says what was there before.
void note_file(const SampleFile& file, std::size_t to_do) {
  const std::string name = shown(file.path());
  if (file.cut_bytes() > 0) {
    print_note(
        fmt::format("{}: {} bytes of an unfinished line were cut off", name, file.cut_bytes()));
  }
  if (file.size() > 0) {
    print_note(fmt::format("{}: {} groups are there already, {} to do", name, file.size(), to_do));
  }
}

/// "NAME: 40 tiles, best 12.50 us, 3.1 s"
std::string summary_of(const SampleLine& line) {
  double best = 0;
  for (const auto& tile : line.tiles) {
    const auto us = tile.at(tile.size() - std::size(k_time_columns)).get<double>();
    if (us > 0 && (best == 0 || us < best)) best = us;
  }
  const std::string kind = line.times == TimeKind::modelled ? ", modelled" : "";
  const std::string time = best > 0 ? fmt::format(", best {:.2f} us{}", best, kind) : "";
  return fmt::format("{}: {} tiles{}, {:.1f} s", line.name, line.tiles.size(), time, line.seconds);
}

/// Goes on with the next job where one fails.
ExitCode run_jobs(const std::vector<Job>& jobs, const SampleFile& file) {
  Progress progress(inspect_stderr(), jobs.size());
  const auto start = Clock::now();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    progress.begin(jobs[i].name);
    try {
      const std::string made = jobs[i].run();
      const std::chrono::duration<double> spent = Clock::now() - start;
      const std::size_t left = jobs.size() - i - 1;
      progress.finish(
          fmt::format("{}; {} left, about {:.0f} s", made, left,
                      spent.count() / static_cast<double>(i + 1) * static_cast<double>(left)));
    } catch (const IoError&) {
      throw;  // the file: the rest would fail too
    } catch (const CacheError&) {
      throw;
    } catch (const NotSupported&) {
      throw;  // no compiler, no device
    } catch (const Error& error) {
      progress.fail(fmt::format("{}: {}", jobs[i].name, error.what()));
      ++failures;
    }
  }
  print(fmt::format("{}: {} groups\n", shown(file.path()), file.size()));
  if (failures == 0) return ExitCode::ok;
  return failures == jobs.size() ? ExitCode::failed : ExitCode::some_failed;
}

/// So many of the best are timed again, each loaded several times: what is best, and which tiles
/// are as good, should not be the luck of one load among hundreds.
constexpr std::size_t k_confirmed = 24;

/// All tiles in full, none by stand-ins.
SearchTrace time_every_tile(TunableSpace& space, const SearchPolicy& policy) {
  SearchSettings settings;
  settings.mode = SearchMode::exhaustive;
  settings.budget_ms = policy.search_budget_ms;
  settings.stages = search_stages(settings.mode, policy.top_k, false);
  settings.stages.confirmed = k_confirmed;
  return search(space, settings, {}).trace;
}

/// The lines of a file, each of which is of that family.
std::vector<SampleLine> lines_of(const fs::path& path, const TunedFamily& family) {
  std::vector<SampleLine> lines;
  for_each_sample_line(path, [&](std::string_view text) {
    lines.push_back(read_sample_line(text));
    static_cast<void>(family.read(lines.back()));
  });
  return lines;
}

ExitCode time_tiles(CollectCommandOptions options, const TileTimer& timer) {
  CollectOptions& collect = options.collect;
  collect.compile.resources.threads = resolve_threads(collect.compile.resources.threads);
  SampleFile file(options.out, family_of(options).name(), TimeKind::measured);
  const auto pool = std::make_shared<WorkerPool>(collect.compile.resources.threads);
  std::vector<Job> jobs;
  for (const Source& source : sources_of(options)) {
    if (file.has(source.name)) continue;
    jobs.push_back({source.name, [&file, &collect, &timer, pool, source] {
                      SampleLine line =
                          timer.time(source.problem(), collect, pool, [&](TunableSpace& space) {
                            return time_every_tile(space, collect.compile.policy);
                          });
                      line.name = source.name;
                      line.recipe = source.recipe;
                      file.append(line);
                      return summary_of(line);
                    }});
  }
  note_file(file, jobs.size());
  return run_jobs(jobs, file);
}

ExitCode compile_tiles(const CollectCommandOptions& options) {
  const TunedFamily& family = family_of(options);
  const std::unique_ptr<TileFolder> folder = family.open(options.compile_only);
  SampleFile& file = folder->groups();
  // Of groups that are there, those whose code is not are compiled again.
  std::set<std::string> incomplete;
  for (const SampleLine& line : lines_of(file.path(), family)) {
    if (!folder->is_complete(line)) incomplete.insert(line.name);
  }
  std::vector<Job> jobs;
  for (const Source& source : sources_of(options)) {
    if (file.has(source.name) && !incomplete.contains(source.name)) continue;
    jobs.push_back({source.name, [&folder, &file, &options, source] {
                      SampleLine line = folder->compile(source.problem(), options.collect);
                      line.name = source.name;
                      line.recipe = source.recipe;
                      if (!file.has(line.name)) file.append(line);
                      return summary_of(line);
                    }});
  }
  note_file(file, jobs.size());
  return run_jobs(jobs, file);
}

/// Of the family that compiles first.
ExitCode time_compiled_tiles(const CollectCommandOptions& options) {
  if (!fs::is_directory(options.time)) {
    throw InvalidArgument(fmt::format("--time {}: no such folder", shown(options.time)));
  }
  const TunedFamily& family = **std::ranges::find(tuned_families(), nullptr, &TunedFamily::timer);
  const std::unique_ptr<TileFolder> folder = family.open(options.time);
  SampleFile file(options.out, family.name(),
                  options.modelled ? TimeKind::modelled : TimeKind::measured);
  std::vector<Job> jobs;
  for (const SampleLine& compiled : lines_of(folder->groups().path(), family)) {
    if (file.has(compiled.name)) continue;
    jobs.push_back({compiled.name, [&folder, &file, &options, compiled] {
                      const double budget_ms = options.collect.compile.policy.search_budget_ms;
                      const SampleLine line = options.modelled ? folder->model(compiled)
                                                               : folder->time(compiled, budget_ms);
                      file.append(line);
                      return summary_of(line);
                    }});
  }
  note_file(file, jobs.size());
  if (jobs.empty() && file.size() == 0) {
    throw Error(fmt::format("{}: no tiles were compiled into it", shown(options.time)));
  }
  return run_jobs(jobs, file);
}

ExitCode collect(const CollectCommandOptions& options) {
  const Target& target = options.collect.compile.target;
  const TileTimer* const timer = family_of(options).timer();
  if (!options.compile_only.empty()) {
    if (timer != nullptr) {
      throw InvalidArgument(
          fmt::format("--compile-only: target {}; expected a GPU, such as sm_90", target.name()));
    }
    return compile_tiles(options);
  }
  if (options.out.empty()) throw InvalidArgument("--out is missing: the file of samples to add to");
  if (!options.time.empty()) return time_compiled_tiles(options);
  if (timer == nullptr) {
    throw InvalidArgument(fmt::format(
        "target {}: tiles of a GPU are compiled first, with --compile-only DIR, then timed, with "
        "--time DIR",
        target.name()));
  }
  if (const Refusal why_not = timer->refusal(target)) {
    throw InvalidArgument(fmt::format("target {}: its tiles are not timed here: {}", target.name(),
                                      why_not.reason()));
  }
  return time_tiles(options, *timer);
}

constexpr std::int64_t k_most = 1'000'000;  ///< groups, and tiles of one

void add_gpu_options(CLI::App& command, CollectCommandOptions& options) {
  CLI::Option* compile_only =
      command
          .add_option("--compile-only", options.compile_only,
                      "Compile tiles for a GPU, which need not be in this machine, and keep their "
                      "cubins in this folder.")
          ->check(not_empty())
          ->type_name("DIR");
  CLI::Option* time =
      command
          .add_option("--time", options.time,
                      "Time the tiles that --compile-only left in this folder on a GPU of this "
                      "machine.")
          ->check(not_empty())
          ->type_name("DIR")
          ->excludes(compile_only);
  command
      .add_flag("--modelled", options.modelled,
                "With --time: no GPU, but times that a clock models from the cubins. Nothing is "
                "measured, and samples and models say so.")
      ->needs(time);
  command
      .add_option("--tiles", options.collect.tiles,
                  "With --compile-only: tiles of a matrix, a quarter the best of the ranking in "
                  "use, the others drawn. 0: all.")
      ->transform(whole_number(0, k_most))
      ->type_name("COUNT")
      ->capture_default_str();
}

void add_options(CLI::App& command, CollectCommandOptions& options) {
  constexpr std::int64_t k_most_columns = 2147483647;
  command.add_option("FILE", options.files,
                     "Matrix files, folders or globs to time instead of synthetic matrices.");
  command
      .add_option("--root", options.root,
                  "Files are named by their path below this folder: names should not depend on "
                  "where they lie.")
      ->check(not_empty())
      ->type_name("DIR");
  command.add_option("--out", options.out, "The file of samples to add to; made if need be.")
      ->check(not_empty())
      ->type_name("FILE");
  command.add_option("--groups", options.groups, "Synthetic matrices, each with its own n.")
      ->transform(whole_number(1, k_most))
      ->type_name("COUNT")
      ->capture_default_str();
  command.add_option("--seed", options.collect.seed, "Seed of the sequence of synthetic matrices.")
      ->transform(seed_number())
      ->type_name("S")
      ->capture_default_str();
  command.add_option("--n", options.n, "With FILE: columns of B, one or more numbers.")
      ->transform(whole_number(1, k_most_columns))
      ->type_name("N")
      ->default_str("32 128 512");
  command
      .add_option_function<std::string>(
          "--target",
          [&options](const std::string& name) {
            options.collect.compile.target = Target::parse(name);
          },
          "host, host-avx512, host-avx2 or host-generic; with --compile-only a GPU, such as sm_90.")
      ->type_name("TARGET")
      ->default_str("host");
  command
      .add_option("--threads", options.collect.compile.resources.threads,
                  "Threads of a run; 0: all.")
      ->transform(whole_number(0, 4096))
      ->type_name("T")
      ->capture_default_str();
  command
      .add_option("--searches", options.collect.searches,
                  "Exhaustive searches of a matrix; with two, what disturbs one does not count.")
      ->transform(whole_number(1, 100))
      ->type_name("COUNT")
      ->capture_default_str();
  command
      .add_option(
          "--search-budget", options.collect.compile.policy.search_budget_ms,
          "Milliseconds for one search, or the tiles of one group: those not reached are left out.")
      ->transform(real_number(0, 1e9))
      ->type_name("MS")
      ->default_str("60000");
}

}  // namespace

Subcommand add_collect(CLI::App& app) {
  const auto options = std::make_shared<CollectCommandOptions>();
  CLI::App* command = app.add_subcommand("collect");
  set_manual(*command, "collect");
  add_options(*command, *options);
  add_gpu_options(*command, *options);
  return {command, [options] { return collect(*options); }};
}

}  // namespace spjit::cli
