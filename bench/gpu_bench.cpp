/// @file
/// Kernels timed on a GPU. scripts/gpu.sh builds and runs it; bench/README.md says how to read it.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ratio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/gpu_case.hpp"
#include "bench/gpu/gpu_search.hpp"
#include "bench/json_file.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

constexpr std::string_view k_usage =
    "gpu_bench [--json FILE] [--append] [--max-minutes N] [--budget MS] [--check-only]\n"
    "          [--first N] [--device ORDINAL]\n"
    "  --json FILE    write the results there, after each case\n"
    "  --append       keep the cases that FILE has, measure the others\n"
    "  --max-minutes N  begin no case that would end later, were it as long as the longest of its\n"
    "                   figure (default 0: go on to the end)\n"
    "  --budget MS    time for timing a case (default 300)\n"
    "  --check-only   launch every kernel and compare its result; time nothing\n"
    "  --first N      only the first N cases of each figure\n"
    "  --device N     the GPU (default 0)\n";

struct Options {
  std::filesystem::path json;
  bool append = false;
  double max_minutes = 0;  ///< of measuring; 0: as long as it takes
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
    if (name == "--append") {
      options.append = true;
      continue;
    }
    if (i + 1 >= argc) throw InvalidArgument(fmt::format("{}: unknown, or needs a value", name));
    const std::string value = argv[++i];
    if (name == "--json") {
      options.json = value;
    } else if (name == "--max-minutes") {
      options.max_minutes = std::stod(value);
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

/// After a kernel that faults, a process can do nothing more on its device.
bool device_works(int ordinal) {
  try {
    CudaContext(local_cuda_driver(), ordinal).synchronize();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The result so far, saved after each case.
class GpuBench {
  using Clock = std::chrono::steady_clock;

 public:
  GpuBench(const Options& options, const CudaDeviceInfo& limits, const std::string& driver)
      : options_(options),
        document_({{"spjit", SPJIT_VERSION},
                   {"device", limits.product},
                   {"target", limits.name()},
                   {"sms", limits.sms},
                   {"l2_bytes", limits.l2_bytes},
                   {"driver", driver},
                   {"timed", !options.bench.check_only},
                   {"cases_left", 0},
                   {"code_bytes", nlohmann::json::array()},
                   {"shapes", nlohmann::json::array()},
                   {"searches", nlohmann::json::array()}}) {
    if (options.append && std::filesystem::exists(options.json)) take_earlier();
  }

  /// The cases of one figure, which `member` has in the file; none that would end too late, were it
  /// as long as the longest before it.
  template <typename Run>
  auto run(const char* member, std::vector<GpuCase> cases, const Run& run_one) {
    if (cases.size() > options_.first) cases.resize(options_.first);
    std::vector<decltype(run_one(cases.front()))> results;
    Clock::duration longest{0};
    for (const GpuCase& item : cases) {
      if (has(member, item.name)) continue;
      const auto start = Clock::now();
      if (is_lost_ || is_late(start + longest)) {
        document_["cases_left"] = ++left_;
        continue;
      }
      results.push_back(run_one(item));
      longest = std::max(longest, Clock::now() - start);
      if (!results.back().failure.empty()) {
        has_failures_ = true;
        is_lost_ = !device_works(options_.bench.device);
      }
      document_[member].push_back(bench::to_json(results.back()));
      save();
    }
    return results;
  }

  /// The exit status.
  int finish() const {
    save();
    if (left_ > 0) {
      fmt::print("stopped {}: {} cases are left, --append goes on\n",
                 is_lost_ ? "because the GPU cannot go on after a fault"
                          : fmt::format("to end within {} minutes", options_.max_minutes),
                 left_);
    }
    return has_failures_ ? 1 : 0;
  }

 private:
  void take_earlier() {
    std::ifstream file(options_.json);
    const nlohmann::json earlier = nlohmann::json::parse(file, nullptr, false);
    for (const char* member : {"device", "timed", "spjit"}) {
      if (earlier.is_discarded() || earlier.value(member, nlohmann::json()) != document_[member]) {
        throw InvalidArgument(
            fmt::format("{}: --append goes on with a result of gpu_bench that has \"{}\": {}",
                        options_.json.string(), member, document_[member].dump()));
      }
    }
    for (const char* member : {"code_bytes", "shapes", "searches"}) {
      document_[member] = earlier.at(member);
    }
  }

  [[nodiscard]] bool has(const char* member, const std::string& name) const {
    return std::ranges::any_of(document_.at(member), [&](const nlohmann::json& result) {
      return result.at("name") == name;
    });
  }

  [[nodiscard]] bool is_late(Clock::time_point when) const {
    const std::chrono::duration<double, std::ratio<60>> spent = when - begin_;
    return options_.max_minutes > 0 && spent.count() >= options_.max_minutes;
  }

  void save() const {
    if (!options_.json.empty()) save_json(options_.json, document_);
  }

  const Options& options_;
  nlohmann::json document_;
  int left_ = 0;
  bool has_failures_ = false;
  bool is_lost_ = false;  ///< the device fails every call
  Clock::time_point begin_ = Clock::now();
};

int run(const Options& options) {
  const LocalGpus local = find_local_gpus();
  if (local.gpus.empty()) {
    fmt::print(stderr, "gpu_bench: no GPU: {}\n", local.problem);
    return 2;
  }
  const CudaDeviceInfo limits = local_gpu_info(options.bench.device);
  fmt::print("{} ({}, {} SMs), {}\n\n", limits.product, limits.name(), limits.sms, local.driver);
  CompileOptions base;
  base.target = Target::parse(limits.name());
  GpuBench bench(options, limits, local.driver);
  const auto run_kernel = [&](const GpuCase& item) {
    GpuResult result = run_case(item, options.bench);
    fmt::print(stderr, "{}: {}\n", item.name, result.failure.empty() ? "done" : result.failure);
    return result;
  };
  fmt::print("{}\n", result_table("Time against code bytes, the same FLOPs",
                                  bench.run("code_bytes", code_bytes_cases(base), run_kernel)));
  std::fflush(stdout);
  fmt::print("{}\n", result_table("Shapes, the prior's tile",
                                  bench.run("shapes", shape_cases(base), run_kernel)));
  std::fflush(stdout);
  static_cast<void>(bench.run("searches", search_cases(base), [&](const GpuCase& item) {
    GpuSearchResult result = run_search(item, options.bench);
    fmt::print("{}", search_table({result}));
    std::fflush(stdout);
    return result;
  }));
  return bench.finish();
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
