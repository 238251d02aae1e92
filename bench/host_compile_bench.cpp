/// @file
/// From the plan to machine code on the host: seconds and memory against nonzeros, for each
/// instruction set that is encoded directly. The counterpart of cuda_compile_bench; nothing that is
/// emitted runs. bench/README.md says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/compile/child_run.hpp"
#include "bench/compile/scaling.hpp"
#include "bench/json_file.hpp"
#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using Clock = std::chrono::steady_clock;

std::vector<std::string> methods() { return {"avx512", "avx2"}; }

struct Options {
  std::int64_t n = 512;
  ScalingOptions scaling{.repeats = 5};
};

/// What is compiled, made before the clock starts.
struct Job {
  KernelPlan plan;
  HostTile tile;
  Problem problem;
  HostIsa isa = HostIsa::generic;
};

/// The tile is mode instant's.
Job make_job(const CsrMatrix& matrix, const std::string& method, std::int64_t n) {
  CompileOptions options;
  options.target = Target::parse("host-" + method);
  Job job;
  job.isa = options.target.isa();
  job.problem.a = matrix;
  job.problem.n = n;
  const DeviceInfo device = device_info_of(options.target);
  const Cancellation cancel;
  job.tile = host_choice_by_rules({job.problem, options, device, cancel}).tile;
  const std::int64_t all = std::max<std::int64_t>(matrix.cols, 1);
  job.plan = build_plan(matrix, group_rows(matrix, job.tile.m1, options.policy.reorder),
                        job.tile.k_block > 0 ? job.tile.k_block : all);
  return job;
}

WorkReport compile(const Job& job) {
  const auto start = Clock::now();
  const HostArtifact artifact = make_unrolled_artifact(job.plan, job.tile, job.problem, job.isa);
  const std::chrono::duration<double> time = Clock::now() - start;
  return {0, time.count(), static_cast<std::int64_t>(artifact.text.size())};
}

ScalingRow measure(const ScalingSize& size, const std::string& method, const Options& options) {
  const Job job = make_job(size.make(), method, options.n);
  ScalingRow row;
  row.nonzeros = job.plan.nnz();
  row.shape = size.shape();
  row.method = "host " + method;
  row.tile = to_string(job.tile);
  for (int repeat = 0; repeat < options.scaling.repeats; ++repeat) {
    row.runs.push_back(run_in_child([&] { return compile(job); }, options.scaling.limit_s));
    if (!row.runs.back().failure.empty()) break;
  }
  return row;
}

int run(const Options& options) {
  const HostCpu& cpu = host_cpu();
  fmt::print("{}, {} CPUs, n = {}, one thread\n\n{}", cpu.model_name, usable_cpus(), options.n,
             scaling_header());
  nlohmann::json document = {{"spjit", SPJIT_VERSION},
                             {"target", "host"},
                             {"cpu", cpu.model_name},
                             {"cpus", usable_cpus()},
                             {"tile", "of mode instant"},
                             {"n", options.n},
                             {"limit_s", options.scaling.limit_s},
                             {"rows", nlohmann::json::array()}};
  bool failed = false;
  for (const ScalingSize& size : scaling_sizes(options.scaling.sizes)) {
    for (const std::string& method : methods()) {
      if (!options.scaling.wants(method)) continue;
      const ScalingRow row = measure(size, method, options);
      fmt::print("{}", scaling_line(row));
      std::fflush(stdout);
      failed = failed || row.good().empty();
      document["rows"].push_back(to_json(row));
    }
  }
  if (document["rows"].empty()) throw Error("no size matches --sizes");
  if (!options.scaling.json.empty()) save_json(options.scaling.json, document);
  return failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("From the plan to machine code: seconds and memory against nonzeros.");
  Options options;
  app.add_option("--n", options.n, "columns of B")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  options.scaling.add_to(app, methods());
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "host_compile_bench: {}\n", error.what());
    return 2;
  }
}
