/// @file
/// Source to cubin: seconds and memory against nonzeros, for NVRTC on the undivided kernel, NVRTC
/// on bounded units, and PTX in bounded units through nvJitLink. Needs NVIDIA's compiler libraries,
/// no GPU. bench/README.md says how to read it.

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
#include "kernels/cuda/build/cuda_build.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t k_undivided = std::int64_t{1} << 40;

struct Options {
  std::string target = "sm_90";
  std::int64_t m1 = 32;
  std::int64_t n1 = 128;
  std::int64_t n = 512;
  std::int64_t unit_nonzeros = CudaTile().unit_nonzeros;
  int threads = 0;
  ScalingOptions scaling;
};

/// Goals of the PTX path on two cores: seconds for at most so many nonzeros.
struct Goal {
  std::int64_t nonzeros;
  double seconds;
};
constexpr Goal k_goals[] = {{26'214, 2}, {707'789, 15}};

enum class Method { undivided, nvrtc_units, ptx_units };
constexpr Method k_methods[] = {Method::undivided, Method::nvrtc_units, Method::ptx_units};

const char* name_of(Method method) {
  switch (method) {
    case Method::undivided:
      return "NVRTC undivided";
    case Method::nvrtc_units:
      return "NVRTC in units";
    case Method::ptx_units:
      return "PTX in units";
  }
  return "?";
}

Method method_of(const ScalingRow& row) {
  return *std::ranges::find_if(k_methods,
                               [&](Method method) { return row.method == name_of(method); });
}

/// As in --methods, in the order of Method.
std::vector<std::string> short_names() { return {"undivided", "nvrtc", "ptx"}; }

bool wanted(Method method, const Options& options) {
  return options.scaling.wants(short_names()[static_cast<std::size_t>(method)]);
}

/// What is compiled, made before the clock starts: the plan, and what launch bounds to ask for.
struct Job {
  KernelPlan plan;
  CudaKernelSpec spec;
  std::int64_t cap = 0;
};

Job make_job(const ScalingSize& size, const Options& options, const CudaDeviceInfo& limits) {
  const CsrMatrix matrix = size.make();
  Job job;
  job.plan =
      build_plan(matrix, group_rows(matrix, options.m1, ReorderAlgorithm::similarity), matrix.cols);
  job.spec.tile.m1 = options.m1;
  job.spec.tile.n1 = options.n1;
  job.spec.tile.unit_nonzeros = options.unit_nonzeros;
  job.spec.n = job.spec.ldb = job.spec.ldc = options.n;
  const std::int64_t registers = predict_registers(job.plan.grouping, job.spec.tile).total();
  job.spec.min_blocks = occupancy(limits, {.threads = options.n1,
                                           .registers_per_thread = registers,
                                           .static_shared_bytes = 0,
                                           .dynamic_shared_bytes = 0})
                            .active_blocks;
  job.cap = register_cap(limits, options.n1, job.spec.min_blocks);
  return job;
}

/// From the plan to the cubin.
WorkReport compile(Job job, Method method, const Options& options, const CudaDeviceInfo& limits) {
  const auto start = Clock::now();
  const int arch = static_cast<int>(limits.arch);
  if (method == Method::undivided) job.spec.tile.unit_nonzeros = k_undivided;
  const std::vector<SourceUnit> units = method == Method::ptx_units
                                            ? emit_ptx(job.plan, job.spec, arch)
                                            : emit_cuda(job.plan, job.spec);
  const std::chrono::duration<double> emit_time = Clock::now() - start;
  CudaBuildOptions build;
  build.arch = arch;
  build.threads = options.threads;
  build.max_registers = job.cap;
  const std::string cubin =
      build_cubin(units, load_cuda_toolchain(needs_of(units, arch), found_cuda_libraries()), build);
  const std::chrono::duration<double> time = Clock::now() - start;
  const CubinInfo info = read_cubin_info(std::as_bytes(std::span(cubin)));
  const CubinKernel* kernel = info.find_kernel(k_cuda_kernel_name);
  if (kernel == nullptr) throw Error("the cubin has no kernel");
  if (kernel->stack_bytes > 0) throw Error(fmt::format("{} bytes spill", kernel->stack_bytes));
  return {emit_time.count(), time.count(), info.code_bytes};
}

/// Of one size, a row a method.
std::vector<ScalingRow> measure_size(const ScalingSize& size, const Options& options,
                                     const CudaDeviceInfo& limits, bool& undivided_is_hopeless) {
  const Job job = make_job(size, options, limits);
  std::vector<ScalingRow> rows;
  for (const Method method : k_methods) {
    if (!wanted(method, options)) continue;
    ScalingRow row;
    row.nonzeros = job.plan.nnz();
    row.shape = size.shape();
    row.method = name_of(method);
    rows.push_back(std::move(row));
  }
  for (int repeat = 0; repeat < options.scaling.repeats; ++repeat) {
    for (ScalingRow& row : rows) {
      const bool failed = !row.runs.empty() && !row.runs.back().failure.empty();
      if (failed) continue;
      const Method method = method_of(row);
      if (method == Method::undivided && undivided_is_hopeless) {
        ChildRun none;
        none.failure = "not tried: a smaller one was over the limit";
        row.runs.push_back(std::move(none));
        continue;
      }
      row.runs.push_back(run_in_child([&] { return compile(job, method, options, limits); },
                                      options.scaling.limit_s));
      if (method == Method::undivided && !row.runs.back().failure.empty()) {
        undivided_is_hopeless = true;
      }
    }
  }
  return rows;
}

/// Lines that hold the goals against the rows.
nlohmann::json judge(const std::vector<ScalingRow>& rows, int threads) {
  nlohmann::json goals = nlohmann::json::array();
  for (const Goal& goal : k_goals) {
    for (const ScalingRow& row : rows) {
      if (method_of(row) != Method::ptx_units || row.nonzeros != goal.nonzeros) continue;
      const std::vector<ChildRun> good = row.good();
      const double seconds = good.empty() ? 0 : good[(good.size() - 1) / 2].report.seconds;
      const bool met = !good.empty() && seconds <= goal.seconds;
      const std::string figure =
          good.empty() ? row.runs.back().failure : fmt::format("{:.2f} s", seconds);
      fmt::print("goal: {} nonzeros in {} s on 2 cores: {} ({}, {} threads)\n", goal.nonzeros,
                 goal.seconds, met ? "met" : "NOT MET", figure, threads);
      goals.push_back({{"nonzeros", goal.nonzeros},
                       {"seconds", goal.seconds},
                       {"measured", figure},
                       {"met", met}});
    }
  }
  return goals;
}

int run(const Options& options) {
  const CudaDeviceInfo limits = parse_cuda_target(options.target);
  const CudaToolchain toolchain =
      load_cuda_toolchain({.arch = static_cast<int>(limits.arch), .nvrtc = true, .nvjitlink = true},
                          found_cuda_libraries());
  const std::string versions =
      fmt::format("NVRTC {}, nvJitLink {}", to_string(toolchain.nvrtc->version()),
                  to_string(toolchain.nvjitlink->version()));
  const HostCpu cpu = detect_host_cpu();
  fmt::print("{}, {}, {} CPUs, {}, tile {}x{}, units of {} nonzeros\n\n", limits.name(), versions,
             usable_cpus(), cpu.model_name, options.m1, options.n1, options.unit_nonzeros);
  fmt::print("{}", scaling_header());
  std::vector<ScalingRow> all;
  bool undivided_is_hopeless = false;
  for (const ScalingSize& size : scaling_sizes(options.scaling.sizes)) {
    for (ScalingRow& row : measure_size(size, options, limits, undivided_is_hopeless)) {
      fmt::print("{}", scaling_line(row));
      std::fflush(stdout);
      all.push_back(std::move(row));
    }
  }
  nlohmann::json document = {{"spjit", SPJIT_VERSION},
                             {"target", limits.name()},
                             {"toolchain", versions},
                             {"cpu", cpu.model_name},
                             {"cpus", usable_cpus()},
                             {"tile", fmt::format("{}x{}", options.m1, options.n1)},
                             {"unit_nonzeros", options.unit_nonzeros},
                             {"limit_s", options.scaling.limit_s},
                             {"rows", nlohmann::json::array()}};
  for (const ScalingRow& row : all) document["rows"].push_back(to_json(row));
  fmt::print("\n");
  document["goals"] = judge(all, options.threads > 0 ? options.threads : usable_cpus());
  if (!options.scaling.json.empty()) save_json(options.scaling.json, document);
  return 0;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--target", options.target, "GPU to compile for")->capture_default_str();
  app.add_option("--m1", options.m1, "rows a tile")->capture_default_str();
  app.add_option("--n1", options.n1, "columns a block")->capture_default_str();
  app.add_option("--unit-nonzeros", options.unit_nonzeros, "nonzeros a unit")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "units compiled at once; 0: one a CPU")
      ->capture_default_str();
  options.scaling.add_to(app, short_names());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Source to cubin: seconds and memory against nonzeros.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_compile_bench: {}\n", error.what());
    return 2;
  }
}
