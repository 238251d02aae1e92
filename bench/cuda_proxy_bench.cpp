/// @file
/// What compiling the proxies of a GPU search costs: from PTX and from CUDA C++, beside one whole
/// kernel. No GPU needed, and nothing is timed on one. bench/README.md says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "bench/host/report.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/host/workloads.hpp"
#include "bench/json_file.hpp"
#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;
using Clock = std::chrono::steady_clock;

struct Options {
  fs::path data = SPJIT_SOURCE_DIR "/../shared/data/dlmc";
  fs::path json;
  std::string only;
  std::string target = "sm_90";
  std::int64_t n = 512;
  int contenders = 10;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One matrix; seconds on one thread.
struct CaseResult {
  std::string matrix;
  std::int64_t nnz = 0;
  std::size_t candidates = 0;  ///< served
  std::size_t proxies = 0;     ///< compiled for them
  std::int64_t proxy_nnz = 0;  ///< in all of the proxies
  double make_s = 0;           ///< plans and proxies, no text yet
  double ptx_s = 0;
  double cuda_s = 0;
  double kernel_s = 0;  ///< the best-ranked candidate in full, from PTX
  int failures = 0;
};

CudaToolchain load_toolchain(const CudaDeviceInfo& limits) {
  CudaToolchainNeeds needs;
  needs.arch = static_cast<int>(limits.arch);
  needs.nvrtc = true;
  needs.nvjitlink = true;
  return load_cuda_toolchain(needs, found_cuda_libraries());
}

void compile_both(const CudaProxy& proxy, const CudaToolchain& toolchain, int arch,
                  CaseResult& result) {
  CudaBuildOptions build;
  build.arch = arch;
  build.threads = 1;
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    const auto start = Clock::now();
    const CompiledCudaProxy made = compile_cuda_proxy(proxy, source, toolchain, build);
    (source == CudaSource::ptx ? result.ptx_s : result.cuda_s) += seconds_since(start);
    if (!made.failure.empty()) ++result.failures;
  }
}

/// Those of a group share a proxy.
std::vector<std::vector<CudaCandidate>> proxy_groups(const std::vector<CudaCandidate>& ranked) {
  std::vector<std::vector<CudaCandidate>> groups;
  for (const CudaCandidate& candidate : ranked) {
    const auto group = std::ranges::find_if(groups, [&](const std::vector<CudaCandidate>& members) {
      return share_proxy(members.front(), candidate);
    });
    if (group == groups.end()) {
      groups.push_back({candidate});
    } else {
      group->push_back(candidate);
    }
  }
  return groups;
}

CaseResult run_case(const bench::Workload& workload, const Options& options,
                    const CudaDeviceInfo& limits, const CudaToolchain& toolchain) {
  CsrMatrix matrix = workload.load();
  matrix.sort_columns();
  CaseResult result;
  result.matrix = workload.name;
  result.nnz = matrix.nnz();
  CompileOptions compile;
  compile.target = Target::parse(options.target);
  compile.resources.compile_threads = 1;
  Problem problem;
  problem.a = matrix;
  problem.n = options.n;
  const DeviceInfo device = limits;
  const Cancellation cancel;
  std::vector<CudaCandidate> ranked =
      choose_cuda_tile({{problem, compile, device, cancel}, {}}).ranked;
  ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(options.contenders)));
  result.candidates = ranked.size();
  for (const std::vector<CudaCandidate>& members : proxy_groups(ranked)) {
    const CudaTile& tile = members.front().tile;
    const auto start = Clock::now();
    const KernelPlan plan = build_plan(matrix, group_rows(matrix, tile.m1, tile.reorder),
                                       std::max<std::int64_t>(matrix.cols, 1));
    const CudaProxy proxy = make_cuda_proxy(plan, members, limits);
    result.make_s += seconds_since(start);
    ++result.proxies;
    result.proxy_nnz += proxy.proxy.plan.nnz();
    compile_both(proxy, toolchain, static_cast<int>(limits.arch), result);
  }
  const CudaCandidate& first = ranked.front();
  const KernelPlan plan = build_plan(matrix, group_rows(matrix, first.tile.m1, first.tile.reorder),
                                     std::max<std::int64_t>(matrix.cols, 1));
  const auto start = Clock::now();
  static_cast<void>(build_cuda_kernel(plan, first, compile, limits));
  result.kernel_s = seconds_since(start);
  return result;
}

nlohmann::json to_json(const CaseResult& result) {
  return {{"matrix", result.matrix},         {"nnz", result.nnz},
          {"candidates", result.candidates}, {"proxies", result.proxies},
          {"proxy_nnz", result.proxy_nnz},   {"make_s", result.make_s},
          {"ptx_s", result.ptx_s},           {"cuda_s", result.cuda_s},
          {"kernel_s", result.kernel_s},     {"failures", result.failures}};
}

int run(const Options& options) {
  const CudaDeviceInfo limits = parse_cuda_target(options.target);
  const CudaToolchain toolchain = load_toolchain(limits);
  const std::string name = cpu_name(detect_host_cpu());
  nlohmann::json document = {{"schema", "spjit-cuda-proxy-bench-1"},
                             {"spjit", SPJIT_VERSION},
                             {"cpu", name},
                             {"target", limits.name()},
                             {"n", options.n},
                             {"timed_on_gpu", false},
                             {"cases", nlohmann::json::array()}};
  fmt::print("{}, compiled for {}, one thread; nothing ran on a GPU\n", name, limits.name());
  fmt::print("{:<44} {:>7} {:>6} {:>7} {:>9} | {:>8} {:>8} {:>8} {:>9}\n", "matrix", "nnz", "tiles",
             "proxies", "their nnz", "make s", "PTX s", "C++ s", "kernel s");
  int failures = 0;
  for (const bench::Workload& workload : list_workloads(options.data)) {
    const bool wanted = workload.source == "dlmc" || !fs::is_directory(options.data);
    if (!wanted || workload.large || workload.name.find(options.only) == std::string::npos)
      continue;
    if (workload.load().nnz() == 0) continue;
    const CaseResult result = run_case(workload, options, limits, toolchain);
    failures += result.failures;
    const std::string shown =
        result.matrix.size() > 44 ? result.matrix.substr(result.matrix.size() - 44) : result.matrix;
    fmt::print("{:<44} {:>7} {:>6} {:>7} {:>9} | {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f}\n", shown,
               result.nnz, result.candidates, result.proxies, result.proxy_nnz, result.make_s,
               result.ptx_s, result.cuda_s, result.kernel_s);
    std::fflush(stdout);
    document["cases"].push_back(to_json(result));
  }
  const fs::path json =
      options.json.empty() ? fs::path("cuda-proxy-" + file_name_of(name) + ".json") : options.json;
  save_json(json, document);
  fmt::print("\nwrote {}\n", json.string());
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Seconds to compile the proxies of a GPU search, without a GPU."};
  app.add_option("--data", options.data, "Folder with .smtx files; generated matrices without it");
  app.add_option("--json", options.json,
                 "Where the result goes (default: cuda-proxy-CPU.json here)");
  app.add_option("--only", options.only, "Only matrices whose name contains this");
  app.add_option("--target", options.target, "What to compile for, sm_90 say");
  app.add_option("--n", options.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--contenders", options.contenders, "Best-ranked tiles that get proxies")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_proxy_bench: {}\n", error.what());
    return 2;
  }
}
