// spjit collect: times tiles of many matrices, to train rank models.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "kernel_options.hpp"
#include "manual.hpp"
#include "plan/problem.hpp"
#include "sample_collector.hpp"
#include "sample_file.hpp"
#include "sample_recipes.hpp"
#include "spjit/error.hpp"
#include "subcommands.hpp"

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct CollectCommandOptions {
  std::vector<std::string> files;
  fs::path root;
  fs::path out;
  std::int64_t groups = 100;
  std::uint64_t seed = 1;
  std::vector<std::int64_t> n = {32, 128, 512};
  CollectOptions collect;
};

/// A group to measure.
struct Job {
  std::string name;
  nlohmann::json recipe;
  std::int64_t n = 1;
  std::function<CsrMatrix()> load;
};

std::string suffix(const CollectCommandOptions& options) {
  return fmt::format(" {} t{}", options.collect.compile.target.name(),
                     options.collect.compile.resources.threads);
}

std::vector<Job> synthetic_jobs(const CollectCommandOptions& options) {
  std::vector<Job> jobs;
  for (std::int64_t i = 0; i < options.groups; ++i) {
    const SampleRecipe recipe = draw_recipe(options.seed, i);
    jobs.push_back({name_of(recipe) + suffix(options), to_json(recipe), recipe.n,
                    [recipe] { return generate_matrix(recipe.generate); }});
  }
  return jobs;
}

/// `file` below the folder that all files have in common with --root.
std::string name_below(const fs::path& file, const fs::path& root) {
  if (root.empty()) return file.generic_string();
  return file.lexically_proximate(root).generic_string();
}

std::vector<Job> file_jobs(const CollectCommandOptions& options) {
  std::vector<Job> jobs;
  for (const Input& input : expand_inputs(options.files)) {
    if (!input.problem.empty()) throw InvalidArgument(input.problem);
    const std::string file = name_below(input.path, options.root);
    for (const std::int64_t n : options.n) {
      jobs.push_back({fmt::format("{} n{}{}", file, n, suffix(options)),
                      {{"file", file}},
                      n,
                      [path = input.path] { return load_matrix(path); }});
    }
  }
  return jobs;
}

HostSampleGroup measure(const Job& job, const CollectCommandOptions& options,
                        const std::shared_ptr<ThreadPool>& pool) {
  Problem problem;
  problem.a = job.load();
  problem.n = job.n;
  HostSampleGroup group = collect_samples(checked_problem(problem), options.collect, pool);
  group.name = job.name;
  group.recipe = job.recipe;
  return group;
}

std::string line_of(const HostSampleGroup& group, std::size_t left, double seconds_left) {
  double best = 0;
  for (const HostSample& sample : group.samples) {
    if (sample.us > 0 && (best == 0 || sample.us < best)) best = sample.us;
  }
  return fmt::format("{}: {} tiles, best {:.2f} us, {:.1f} s; {} left, about {:.0f} s", group.name,
                     group.samples.size(), best, group.seconds, left, seconds_left);
}

ExitCode collect(CollectCommandOptions options) {
  if (options.collect.compile.target.is_cuda()) {
    throw InvalidArgument(fmt::format("target {}: collect times tiles of the host only",
                                      options.collect.compile.target.name()));
  }
  options.collect.compile.resources.threads =
      resolve_threads(options.collect.compile.resources.threads);
  SampleFile file(options.out);
  if (file.cut_bytes() > 0) {
    print_note(fmt::format("{}: {} bytes of an unfinished line were cut off", options.out.string(),
                           file.cut_bytes()));
  }
  std::vector<Job> jobs = options.files.empty() ? synthetic_jobs(options) : file_jobs(options);
  std::erase_if(jobs, [&](const Job& job) { return file.has(job.name); });
  if (file.size() > 0) {
    print_note(fmt::format("{}: {} groups are there already, {} to do", options.out.string(),
                           file.size(), jobs.size()));
  }
  const auto pool = std::make_shared<WorkerPool>(options.collect.compile.resources.threads);
  Progress progress(inspect_stderr(), jobs.size());
  const auto start = Clock::now();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    progress.begin(jobs[i].name);
    try {
      const HostSampleGroup group = measure(jobs[i], options, pool);
      file.append(group);
      const std::chrono::duration<double> spent = Clock::now() - start;
      const std::size_t left = jobs.size() - i - 1;
      progress.finish(line_of(
          group, left, spent.count() / static_cast<double>(i + 1) * static_cast<double>(left)));
    } catch (const IoError&) {
      throw;  // the file: the rest would fail too
    } catch (const Error& error) {
      progress.fail(fmt::format("{}: {}", jobs[i].name, error.what()));
      ++failures;
    }
  }
  print(fmt::format("{}: {} groups\n", shown(options.out), file.size()));
  if (failures == 0) return ExitCode::ok;
  return failures == jobs.size() ? ExitCode::failed : ExitCode::some_failed;
}

void add_options(CLI::App& command, CollectCommandOptions& options) {
  constexpr std::int64_t k_most = 1'000'000;
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
      ->required()
      ->type_name("FILE");
  command.add_option("--groups", options.groups, "Synthetic matrices, each with its own n.")
      ->transform(whole_number(1, k_most))
      ->type_name("COUNT")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Seed of the sequence of synthetic matrices.")
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
          "host, host-avx512, host-avx2 or host-generic.")
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
      .add_option("--search-budget", options.collect.compile.policy.search_budget_ms,
                  "Milliseconds for one search: tiles that it does not reach are left out.")
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
  return {command, [options] { return collect(*options); }};
}

}  // namespace spjit::cli
