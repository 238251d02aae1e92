/// @file
/// Host kernels side by side with OpenBLAS and a hand-written CSR loop, and the goals of the host
/// target held against the result. bench/README.md says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/host/case.hpp"
#include "bench/host/goals.hpp"
#include "bench/host/read_bandwidth.hpp"
#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/host/workloads.hpp"
#include "bench/json_file.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;

struct Options {
  fs::path data = SPJIT_SOURCE_DIR "/../shared/data/dlmc";
  fs::path json;
  std::string only;
  std::string target = "host";
  std::vector<std::int64_t> n = {128, 512};
  std::vector<int> threads = {1, 2};
  double budget_ms = 400;
};

RunDescription describe_run(const CaseSettings& settings, const std::string& openblas) {
  const HostCpu cpu = detect_host_cpu();
  return {cpu_name(cpu),
          settings.target.name(),
          usable_cpus(),
          cpu.l1d_bytes,
          cpu.l2_bytes,
          cpu.l3_bytes,
          measure_read_bandwidth(settings.target.isa(), cpu.l2_bytes / 2),
          load_average(),
          openblas};
}

void print_run(const RunDescription& run) {
  fmt::print("{} ({}), {} CPUs, L1d {} KiB, L2 {} KiB at {:.0f} GB/s, L3 {} MiB\n", run.cpu,
             run.isa, run.cpus, run.l1d_bytes >> 10, run.l2_bytes >> 10, run.l2_gbytes_per_s,
             run.l3_bytes >> 20);
  // Before the run, a benchmark's own machine should be idle.
  if (run.load_average > k_busy_load_average) {
    fmt::print("WARNING: load average {:.1f}: other work disturbs these figures\n",
               run.load_average);
  }
  fmt::print("dense peer: {}\n\n{}\n", run.openblas, table_header());
}

std::vector<CaseShape> shapes_of(const Options& options, const Workload& workload) {
  if (workload.large) return {{options.n.front(), 1}};
  std::vector<CaseShape> shapes;
  for (const std::int64_t n : options.n) {
    for (const int threads : options.threads) shapes.push_back({n, threads});
  }
  return shapes;
}

struct Outcome {
  std::vector<CaseResult> cases;
  int failures = 0;
};

/// A case that fails is reported and left out; the others go on.
Outcome run_cases(const CaseSettings& settings, const Options& options) {
  Outcome outcome;
  for (const Workload& workload : list_workloads(options.data)) {
    if (workload.name.find(options.only) == std::string::npos) continue;
    const CsrMatrix matrix = workload.load();
    for (const CaseShape& shape : shapes_of(options, workload)) {
      try {
        outcome.cases.push_back(run_case(settings, workload, matrix, shape));
        fmt::print("{}\n", table_row(outcome.cases.back()));
      } catch (const Error& error) {
        ++outcome.failures;
        fmt::print("FAILED: {} n={} t={}: {}\n", workload.name, shape.n, shape.threads,
                   error.what());
      }
      std::fflush(stdout);
    }
  }
  return outcome;
}

int run(const Options& options) {
  const ScratchDirectory scratch("spjit-bench");
  // OpenBLAS chooses kernels for this CPU by itself; a choice left in the environment can only make
  // the peer weaker (AVX2 kernels are half as fast as AVX-512 ones).
  unsetenv("OPENBLAS_CORETYPE");
  const OpenBlas::Loaded openblas = OpenBlas::load();
  const CaseSettings settings{Target::parse(options.target), openblas.library, options.budget_ms,
                              scratch.path()};
  const RunDescription description =
      describe_run(settings, openblas.library ? openblas.library->version() : openblas.reason);
  print_run(description);
  const Outcome outcome = run_cases(settings, options);
  const std::vector<GoalResult> goals = evaluate_goals(outcome.cases);
  fmt::print("\nGoals (worst case each, or the mean where it says so):\n");
  for (const GoalResult& goal : goals) fmt::print("{}\n", goal_row(goal));
  const fs::path json = options.json.empty()
                            ? fs::path("host-" + file_name_of(description.cpu) + ".json")
                            : options.json;
  save_json(json, to_json(description, outcome.cases, goals));
  fmt::print("\nwrote {}\n", json.string());
  return outcome.failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Host kernels beside OpenBLAS and hand-written CSR, and the goals they must meet."};
  app.add_option("--data", options.data, "Folder with .smtx files; generated matrices without it");
  app.add_option("--json", options.json, "Where the result goes (default: host-CPU.json here)");
  app.add_option("--only", options.only, "Only matrices whose name contains this");
  app.add_option("--target", options.target, "host, host-avx512, host-avx2, host-generic");
  app.add_option("--n", options.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")->check(CLI::PositiveNumber);
  app.add_option("--budget-ms", options.budget_ms, "Timing of one case, least samples aside");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "host_bench: {}\n", error.what());
    return 2;
  }
}
