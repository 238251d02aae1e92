/// @file
/// Kernels timed on a GPU. scripts/gpu.sh builds and runs it; bench/README.md says how to read it.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/gpu_case.hpp"
#include "bench/gpu/gpu_search.hpp"
#include "compiler/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

constexpr std::string_view k_usage =
    "gpu_bench [--json FILE] [--budget MS] [--check-only] [--ptx] [--first N] [--device ORDINAL]\n"
    "  --json FILE    write the results there\n"
    "  --budget MS    time for timing a case (default 300)\n"
    "  --check-only   launch every kernel and compare its result; time nothing\n"
    "  --ptx          load the kernels' PTX: for the emulated driver, which takes no cubin\n"
    "  --first N      only the first N cases of each figure\n"
    "  --device N     the GPU (default 0)\n";

struct Options {
  std::filesystem::path json;
  GpuBenchOptions bench;
  std::size_t first = 1'000'000;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--check-only") {
      options.bench.check_only = true;
      continue;
    }
    if (name == "--ptx") {
      options.bench.load_ptx = true;
      continue;
    }
    if (i + 1 >= argc) throw InvalidArgument(fmt::format("{}: unknown, or needs a value", name));
    const std::string value = argv[++i];
    if (name == "--json") {
      options.json = value;
    } else if (name == "--budget") {
      options.bench.budget_ms = std::stod(value);
    } else if (name == "--first") {
      options.first = std::stoul(value);
    } else if (name == "--device") {
      options.bench.device = std::stoi(value);
    } else {
      throw InvalidArgument(fmt::format("unknown argument {}", name));
    }
  }
  return options;
}

std::vector<GpuResult> run_figure(const std::string& title, std::vector<GpuCase> cases,
                                  const Options& options) {
  if (cases.size() > options.first) cases.resize(options.first);
  std::vector<GpuResult> results;
  for (const GpuCase& item : cases) {
    results.push_back(run_case(item, options.bench));
    fmt::print(stderr, "{}: {}\n", item.name,
               results.back().failure.empty() ? "done" : results.back().failure);
  }
  fmt::print("{}\n", result_table(title, results));
  std::fflush(stdout);
  return results;
}

std::vector<GpuSearchResult> run_searches(std::vector<GpuCase> cases, const Options& options) {
  if (cases.size() > options.first) cases.resize(options.first);
  std::vector<GpuSearchResult> results;
  for (const GpuCase& item : cases) {
    results.push_back(run_search(item, options.bench));
    fmt::print("{}", search_table({results.back()}));
    std::fflush(stdout);
  }
  return results;
}

template <typename Result>
nlohmann::json to_json(const std::vector<Result>& results) {
  nlohmann::json list = nlohmann::json::array();
  for (const Result& result : results) list.push_back(bench::to_json(result));
  return list;
}

template <typename Result>
bool any_failed(const std::vector<Result>& results) {
  return std::ranges::any_of(results, [](const Result& result) { return !result.failure.empty(); });
}

int run(const Options& options) {
  const LocalGpus local = find_local_gpus();
  if (local.gpus.empty()) {
    fmt::print(stderr, "gpu_bench: no GPU: {}\n", local.problem);
    return 2;
  }
  const CudaLimits limits = local_gpu_limits(options.bench.device);
  fmt::print("{} ({}, {} SMs), {}\n\n", limits.product, limits.name(), limits.sms, local.driver);
  CompileOptions base;
  base.n = 1;
  base.target = Target::parse(limits.name());

  const std::vector<GpuResult> code =
      run_figure("Time against code bytes, the same FLOPs", code_bytes_cases(base), options);
  const std::vector<GpuResult> shapes =
      run_figure("Shapes, the prior's tile", shape_cases(base), options);
  const std::vector<GpuSearchResult> searches = run_searches(search_cases(base), options);

  const nlohmann::json document = {{"spjit", SPJIT_VERSION},
                                   {"device", limits.product},
                                   {"target", limits.name()},
                                   {"sms", limits.sms},
                                   {"l2_bytes", limits.l2_bytes},
                                   {"driver", local.driver},
                                   {"timed", !options.bench.check_only},
                                   {"code_bytes", to_json(code)},
                                   {"shapes", to_json(shapes)},
                                   {"searches", to_json(searches)}};
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << document.dump(2) << '\n';
    file.close();
    if (!file) throw IoError(options.json.string() + ": cannot be written");
  }
  return any_failed(code) || any_failed(shapes) || any_failed(searches) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "--help") {
      fmt::print("{}", k_usage);
      return 0;
    }
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n{}", error.what(), k_usage);
    return 2;
  }
}
