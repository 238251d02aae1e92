/// @file
/// Searches for tiles on a GPU. scripts/gpu/gpu.sh builds and runs it; bench/README.md says how to
/// read it.

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
#include <utility>
#include <vector>

#include "bench/gpu/cubin_folder.hpp"
#include "bench/gpu/gpu_bench_options.hpp"
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
using Options = GpuBenchArguments;

/// What a result has, in the order in which it is measured.
constexpr const char* k_members[] = {"ranks", "searches"};

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
                   {"cases_left", 0}}) {
    for (const char* member : k_members) document_[member] = nlohmann::json::array();
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

  [[nodiscard]] const nlohmann::json& document() const noexcept { return document_; }

  /// The exit status.
  int finish() {
    if (options_.bench.cubins) {
      const CubinCounts counts = options_.bench.cubins->counts();
      document_["cubins"] = {{"found", counts.found}, {"compiled", counts.compiled}};
    }
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
    for (const char* member : k_members) {
      document_[member] = earlier.value(member, nlohmann::json::array());
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

/// The oracle's times of a case, where `ranks` has measured them.
TileTimes known_truth(const nlohmann::json& ranks, const std::string& name) {
  for (const nlohmann::json& result : ranks) {
    if (result.at("name") == name) return truth_in(result);
  }
  return {};
}

void run_figures(GpuBench& bench, const Options& options, const CompileOptions& base) {
  const auto print = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  for (const auto& [figure, member] :
       {std::pair{SearchFigure::ranks, "ranks"}, std::pair{SearchFigure::searches, "searches"}}) {
    if (!options.wants(member)) continue;
    const auto cases = search_cases(base, options.bench.check_only);
    bench.run(member, cases, [&, figure = figure](const GpuCase& item) {
      const TileTimes truth = figure == SearchFigure::searches
                                  ? known_truth(bench.document().at("ranks"), item.name)
                                  : TileTimes{};
      GpuSearchResult result = run_search(item, options.bench, figure, truth);
      print(search_table(result));
      return result;
    });
  }
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
    options.bench.cubins = CubinFolder::for_device(options.cubins, limits);
  }
  CompileOptions base;
  base.target = Target::parse(limits.name());
  GpuBench bench(options, limits, local.driver);
  run_figures(bench, options, base);
  if (options.bench.cubins) fmt::print("{}\n", to_string(options.bench.cubins->counts()));
  return bench.finish();
}

/// Compiles the cases of a figure.
class Filling {
 public:
  explicit Filling(const Options& options) : options_(options), folder_(*options.bench.cubins) {}

  /// `fill_one` returns what there is to say, or nothing; a case that throws keeps the figure from
  /// being finished.
  template <typename Make, typename Fill>
  void run(const std::string& figure, const Make& make_cases, const Fill& fill_one) {
    if (!options_.wants(figure)) return;
    std::vector<GpuCase> cases = make_cases();
    if (cases.size() > options_.first) cases.resize(options_.first);
    bool is_whole = true;
    for (const GpuCase& item : cases) {
      std::string told;
      try {
        told = fill_one(item);
      } catch (const Error& error) {
        is_whole = false;
        told = fmt::format("FAILED: {}", error.what());
      }
      fmt::print("{} {}: {}\n", figure, item.name, told.empty() ? "done" : told);
      std::fflush(stdout);
    }
    if (is_whole) folder_.finish(stored_step(figure, options_.bench.check_only));
    has_failures_ |= !is_whole;
  }

  [[nodiscard]] bool has_failures() const noexcept { return has_failures_; }

 private:
  const Options& options_;
  CubinFolder& folder_;
  bool has_failures_ = false;
};

int precompile(Options options) {
  options.bench.cubins = CubinFolder::to_fill(options.cubins, options.target);
  options.bench.cubins->require_compilers();
  const GpuBenchOptions& bench = options.bench;
  CompileOptions base;
  base.target = Target::parse(bench.cubins->card().name());
  Filling filling(options);
  for (const auto& [figure, name] :
       {std::pair{SearchFigure::ranks, "ranks"}, std::pair{SearchFigure::searches, "searches"}}) {
    filling.run(
        name, [&] { return search_cases(base, bench.check_only); },
        [&, figure = figure](const GpuCase& item) {
          const std::size_t failed = fill_search(item, bench, figure);
          return failed == 0 ? std::string()
                             : fmt::format("done, {} tiles did not compile", failed);
        });
  }
  fmt::print("{}\n", to_string(bench.cubins->counts()));
  return filling.has_failures() ? 1 : 0;
}

int check_cubins(const Options& options) {
  const CubinManifest manifest = read_cubin_manifest(options.cubins);
  std::vector<std::string> problems;
  if (Refusal problem = why_not_for(manifest, local_gpu_info(options.bench.device))) {
    problems.push_back(std::move(problem).reason());
  } else {
    problems = damaged_cubins(options.cubins, manifest);
    for (const std::string& step : options.figures) {
      if (manifest.finished.contains(stored_step(step, options.bench.check_only))) continue;
      problems.push_back(fmt::format("step {} is not finished", step));
    }
  }
  constexpr std::size_t k_most_told = 5;
  for (std::size_t i = 0; i < std::min(problems.size(), k_most_told); ++i) {
    fmt::print(stderr, "gpu_bench: {}: {}\n", options.cubins.string(), problems[i]);
  }
  if (problems.empty()) {
    fmt::print("{}: {} cubins for {} by spjit {}, all whole\n", options.cubins.string(),
               manifest.cubins.size(), manifest.target, manifest.spjit);
    return 0;
  }
  fmt::print(stderr,
             "gpu_bench: {}: {} problems; scripts/gpu/gpu.sh --precompile makes what is missing "
             "or damaged anew\n",
             options.cubins.string(), problems.size());
  return 1;
}

int run(const Options& options) {
  switch (options.mode) {
    case GpuBenchMode::precompile:
      return precompile(options);
    case GpuBenchMode::check_cubins:
      return check_cubins(options);
    case GpuBenchMode::measure:
      break;
  }
  return measure(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "--help") {
      fmt::print("{}", k_gpu_bench_usage);
      return 0;
    }
    return run(parse_gpu_bench({argv + 1, argv + argc}));
  } catch (const InvalidArgument& error) {
    fmt::print(stderr, "gpu_bench: {}\n{}", error.what(), k_gpu_bench_usage);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
  }
  return 2;
}
