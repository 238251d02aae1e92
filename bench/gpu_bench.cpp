/// @file
/// How proxies rank tiles on a GPU. scripts/gpu/gpu.sh builds and runs it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ratio>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/cubin_cache.hpp"
#include "bench/gpu/gpu_case.hpp"
#include "bench/gpu/gpu_search.hpp"
#include "bench/json_file.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;

constexpr const char* k_step = "ranks";

struct Options {
  fs::path json;
  bool append = false;
  double max_minutes = 0;
  std::size_t first = 1'000'000;
  GpuBenchOptions bench;
  fs::path cubins;
  fs::path precompile;
  std::string target;
};

/// After a kernel that faults, a process can do nothing more on its device.
bool device_works(int ordinal) {
  try {
    CudaContext(local_cuda_driver(), ordinal).synchronize();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<GpuCase> cases_of(const Options& options, const std::string& target) {
  CompileOptions base;
  base.target = Target::parse(target);
  std::vector<GpuCase> cases = search_cases(base, options.bench.check_only);
  if (cases.size() > options.first) cases.resize(options.first);
  return cases;
}

/// The earlier cases of --json's file, which `document` goes on with.
void take_earlier(const fs::path& file, nlohmann::json& document) {
  std::ifstream stream(file);
  const nlohmann::json earlier = nlohmann::json::parse(stream, nullptr, false);
  for (const char* member : {"device", "timed", "spjit"}) {
    if (!earlier.is_discarded() && earlier.value(member, nlohmann::json()) == document[member]) {
      continue;
    }
    throw InvalidArgument(
        fmt::format("{}: --append goes on with a result of gpu_bench that has \"{}\": {}",
                    file.string(), member, document[member].dump()));
  }
  document[k_step] = earlier.value(k_step, nlohmann::json::array());
}

/// Measures each case and saves it; none that would end too late, were it as long as the longest.
/// Returns the exit status.
int run_cases(const Options& options, const std::vector<GpuCase>& cases, nlohmann::json& document) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto is_late = [&](Clock::time_point when) {
    const std::chrono::duration<double, std::ratio<60>> spent = when - begin;
    return options.max_minutes > 0 && spent.count() >= options.max_minutes;
  };
  int left = 0;
  bool has_failures = false;
  bool is_lost = false;
  Clock::duration longest{0};
  for (const GpuCase& item : cases) {
    const bool is_done = std::ranges::any_of(document[k_step], [&](const nlohmann::json& result) {
      return result.at("name") == item.name;
    });
    if (is_done) continue;
    const auto start = Clock::now();
    if (is_lost || is_late(start + longest)) {
      document["cases_left"] = ++left;
      continue;
    }
    const GpuSearchResult result = run_search(item, options.bench);
    fmt::print("{}", search_table(result));
    std::fflush(stdout);
    longest = std::max(longest, Clock::now() - start);
    if (!result.failure.empty()) {
      has_failures = true;
      is_lost = !device_works(options.bench.device);
    }
    document[k_step].push_back(bench::to_json(result));
    if (!options.json.empty()) save_json(options.json, document);
  }
  if (left > 0) {
    fmt::print("stopped {}: {} cases are left, --append goes on\n",
               is_lost ? "because the GPU cannot go on after a fault"
                       : fmt::format("to end within {} minutes", options.max_minutes),
               left);
  }
  return has_failures ? 1 : 0;
}

int measure(Options options) {
  const LocalGpus local = find_local_gpus();
  if (local.gpus.empty()) {
    fmt::print(stderr, "gpu_bench: no GPU: {}\n", local.problem);
    return 2;
  }
  const CudaDeviceInfo limits = local_gpu_info(options.bench.device);
  fmt::print("{} ({}, {} SMs), {}\n\n", limits.product, limits.name(), limits.sms, local.driver);
  if (!options.cubins.empty()) {
    options.bench.cubins = std::make_shared<CubinCache>(options.cubins, options.target);
    options.bench.cubins->require(limits);
  }
  nlohmann::json document = {{"spjit", SPJIT_VERSION},
                             {"device", limits.product},
                             {"target", limits.name()},
                             {"sms", limits.sms},
                             {"l2_bytes", limits.l2_bytes},
                             {"driver", local.driver},
                             {"timed", !options.bench.check_only},
                             {"cases_left", 0},
                             {k_step, nlohmann::json::array()}};
  if (options.append && fs::exists(options.json)) take_earlier(options.json, document);
  const int status = run_cases(options, cases_of(options, limits.name()), document);
  if (options.bench.cubins) {
    const CubinCounts counts = options.bench.cubins->counts();
    document["cubins"] = {{"found", counts.found}, {"compiled", counts.compiled}};
    fmt::print("{}\n", to_string(counts));
  }
  if (!options.json.empty()) save_json(options.json, document);
  return status;
}

int precompile(Options options) {
  const auto cubins = std::make_shared<CubinCache>(options.precompile, options.target);
  options.bench.cubins = cubins;
  options.bench.compile_only = true;
  bool is_whole = true;
  for (const GpuCase& item : cases_of(options, cubins->card().name())) {
    try {
      const std::size_t failed = fill_search(item, options.bench);
      fmt::print("{} {}: done, {} tiles did not compile\n", k_step, item.name, failed);
    } catch (const Error& error) {
      is_whole = false;
      fmt::print("{} {}: FAILED: {}\n", k_step, item.name, error.what());
    }
    std::fflush(stdout);
  }
  fmt::print("{}\n", to_string(cubins->counts()));
  return is_whole ? 0 : 1;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--json", options.json, "Write the result there, after each case");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin no case that would end later, were it as long as the longest; 0: go on")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tiles", options.bench.most_tiles,
                 "Only so many tiles of a case, spread over the ranking; 0: all");
  app.add_option("--first", options.first, "Only so many cases");
  app.add_flag("--check-only", options.bench.check_only,
               "Launch and compare, time nothing; one small matrix and two ways");
  app.add_option("--device", options.bench.device, "The GPU")->check(CLI::NonNegativeNumber);
  CLI::Option* target =
      app.add_option("--target", options.target, "What cubins are compiled for: sm_90:h100");
  CLI::Option* cubins = app.add_option("--cubins", options.cubins,
                                       "Load cubins from there; what it lacks is compiled")
                            ->needs(target);
  app.add_option("--precompile", options.precompile,
                 "Only compile the cubins into this folder; needs no GPU")
      ->needs(target)
      ->excludes(cubins);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"How proxies rank tiles on a GPU."};
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return options.precompile.empty() ? measure(std::move(options))
                                      : precompile(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 2;
  }
}
