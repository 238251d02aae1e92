/// @file
/// One way to search a kernel, in a process of its own: bench/python/search_cost_bench.py starts
/// it, looks at its memory and kills it at a limit. Tells of it in lines of JSON
/// (bench/search_cost/way.hpp), the last of which is {"seconds": 4.2, "code_bytes": 4096}.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/host_cpu.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/search_cost/way.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

struct Options {
  std::filesystem::path matrix;
  std::vector<double> uniform;  ///< rows, columns, sparsity
  std::int64_t n = 512;
  std::string target = "host";
  std::string way = "instant";
  int gpu = -1;
  bool rehearse = false;
  bool describe = false;
  CostSettings settings;
};

CsrMatrix matrix_of(const Options& options) {
  if (!options.matrix.empty()) {
    CsrMatrix matrix = load_matrix(options.matrix);
    matrix.sort_columns();
    return matrix;
  }
  GenerateOptions generate;
  generate.rows = static_cast<std::int64_t>(options.uniform.at(0));
  generate.cols = static_cast<std::int64_t>(options.uniform.at(1));
  generate.sparsity = options.uniform.at(2);
  return generate_matrix(generate);
}

/// What a result file has of this machine and of the target. Throws NotSupported where the target's
/// kernels cannot be compiled here.
nlohmann::json description(const Options& options) {
  const HostCpu& cpu = host_cpu();
  nlohmann::json json = {{"spjit", SPJIT_VERSION},
                         {"device",
                          {{"kind", "host"},
                           {"name", cpu_name(cpu)},
                           {"isa", Target().name()},
                           {"cpus", usable_cpus()},
                           {"l1d_bytes", cpu.l1d_bytes},
                           {"l2_bytes", cpu.l2_bytes},
                           {"l3_bytes", cpu.l3_bytes},
                           {"load_average", load_average()}}}};
  const Target target = options.target == "host" ? Target() : Target::parse(options.target);
  json["target"] = target.name();
  if (target.backend() != "cuda") {
    if (!target.runs_here()) throw NotSupported("this CPU cannot run its kernels");
    return json;
  }
  const CudaDeviceInfo limits = cuda_device_info_of(target);
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(limits.arch);
  needs.nvrtc = needs.nvjitlink = true;
  const TimingGpu gpu = find_timing_gpu(target, limits);
  json["target"] = limits.name();
  json["toolchain"] = to_string(load_cuda_toolchain(needs, found_cuda_libraries()));
  json["gpu"] = gpu.ordinal ? nlohmann::json(*gpu.ordinal) : nlohmann::json();
  json["product"] = gpu.product;
  json["problem"] = gpu.problem;
  return json;
}

void run(const Options& options) {
  Problem problem;
  problem.a = matrix_of(options);
  problem.n = options.n;
  fmt::print("{}\n",
             nlohmann::json{
                 {"rows", problem.a->rows}, {"cols", problem.a->cols}, {"nnz", problem.a->nnz()}}
                 .dump());
  std::fflush(stdout);
  const CostWay way = way_named(options.way);
  const Target target = options.target == "host" ? Target() : Target::parse(options.target);
  CostReporter reporter(stdout);
  std::int64_t bytes = 0;
  if (target.backend() == "cuda") {
    CudaCostTarget cuda{options.target};
    if (options.gpu >= 0) cuda.ordinal = options.gpu;
    cuda.rehearsal = options.rehearse;
    bytes = run_cuda_way(problem, cuda, way, options.settings, reporter);
  } else {
    bytes = run_host_way(problem, target, way, options.settings, reporter);
  }
  fmt::print("{}\n", nlohmann::json{{"seconds", reporter.seconds()}, {"code_bytes", bytes}}.dump());
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--matrix", options.matrix, "A file");
  app.add_option("--uniform", options.uniform, "Instead of it: rows, columns, sparsity")
      ->expected(3);
  app.add_option("--n", options.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--target", options.target, "host, host-avx2, sm_90, ...");
  app.add_option("--way", options.way, "full undivided, proxies, ...");
  app.add_option("--gpu", options.gpu, "Of a GPU target: times on this one; else nothing is timed");
  app.add_flag("--rehearse", options.rehearse, "With --gpu: the fewest launches");
  app.add_option("--limit", options.settings.limit_s, "Seconds after which it will be killed");
  app.add_option("--threads", options.settings.threads, "That compile for a GPU; 0: one a CPU");
  app.add_option("--seed", options.settings.seed, "Of the order whole kernels are compiled in");
  app.add_flag("--describe", options.describe, "Only say what this machine and the target are");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"One way to search a kernel."};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.describe) {
      fmt::print("{}\n", description(options).dump());
    } else {
      run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
