#include "bench/gpu/gpu_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "bench/gpu/rehearsal_tools.hpp"
#include "bench/rank_agreement.hpp"
#include "kernels/unrolled_cuda/cuda_choice.hpp"
#include "kernels/unrolled_cuda/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_oracle = "oracle";
constexpr int k_oracle_rounds = 7;
/// Long enough for every survivor of the largest case.
constexpr double k_budget_ms = 300'000;

/// What a way is made of.
struct Way {
  std::string name;
  SearchMode mode = SearchMode::proxy;
  CudaSource source = CudaSource::ptx;
  CudaReductions reductions = {};
  std::size_t finalists = 0;  ///< timed in full; 0: proxies alone decide
};

std::vector<Way> ways_of() {
  CudaReductions kernels;
  kernels.kernels = false;
  CudaReductions blocks;
  blocks.blocks = false;
  CudaReductions iterations;
  iterations.iterations = false;
  CudaReductions occupancy;
  occupancy.occupancy = false;
  const std::size_t shipped = SearchStages{}.finalists;
  return {{k_oracle, SearchMode::exhaustive},
          {"ranked", SearchMode::ranked, CudaSource::ptx, {}, shipped},
          {"proxy", SearchMode::proxy, CudaSource::ptx, {}, shipped},
          {"ranked-alone", SearchMode::ranked},
          {"proxy-alone", SearchMode::proxy},
          {"proxy-c++", SearchMode::proxy, CudaSource::cuda},
          {"-kernels", SearchMode::proxy, CudaSource::ptx, kernels},
          {"-blocks", SearchMode::proxy, CudaSource::ptx, blocks},
          {"-iterations", SearchMode::proxy, CudaSource::ptx, iterations},
          {"-occupancy", SearchMode::proxy, CudaSource::ptx, occupancy}};
}

/// By proxy where there are proxies, else in full; 0: it has none.
double time_of(const SearchTraceEntry& entry) {
  const std::optional<TuningResult>& result = entry.proxy ? entry.proxy : entry.full;
  return result && result->outcome != TuningOutcome::failed && result->timing.samples > 0
             ? result->timing.median_us
             : 0;
}

bool has_failed(const SearchTraceEntry& entry) {
  const auto failed = [](const std::optional<TuningResult>& result) {
    return result && result->outcome == TuningOutcome::failed;
  };
  return failed(entry.full) || failed(entry.proxy);
}

/// Of one case.
class GpuSearchCase {
 public:
  GpuSearchCase(const GpuCase& item, const GpuBenchOptions& bench)
      : bench_(bench),
        problem_(item.problem),
        options_(item.options),
        limits_(local_gpu_info(bench.device)),
        groupings_(*problem_.a, options_.policy.reorder) {
    options_.policy.search_budget_ms = k_budget_ms;
    options_.policy.search = SearchMode::instant;
    const DeviceInfo device = limits_;
    const Cancellation cancel;
    ranked_ = choose_cuda_tile({{problem_, options_, device, cancel}, {}}).ranked;
  }

  [[nodiscard]] std::size_t survivors() const { return ranked_.size(); }

  GpuSearchWay run(const Way& way) {
    GpuSearchWay result;
    result.way = way.name;
    options_.policy.search = way.mode;
    options_.policy.proxy_source = way.source;
    const CudaSearchInput input{problem_, options_, limits_, groupings_};
    CudaTunable space(input, ranked_, tools_of(input, way), way.reductions);
    SearchSettings settings;
    settings.mode = way.mode;
    settings.budget_ms = k_budget_ms;
    settings.stages = search_stages(way.mode, options_.policy.top_k, true);
    settings.stages.finalists = way.finalists;
    const SearchTrace trace = spjit::search(space, settings, {}).trace;
    result.seconds = (trace.proxy_ms + trace.full_ms) / 1e3;
    for (const SearchTraceEntry& entry : trace.entries) {
      if (has_failed(entry)) ++result.failed;
      if (time_of(entry) > 0) ++result.timed;
      if (has_failed(entry) && result.problem.empty()) {
        const bool by_proxy = entry.proxy && !entry.proxy->failure.empty();
        result.problem = by_proxy ? entry.proxy->failure : entry.full->failure;
      }
    }
    if (trace.timed) result.tile = trace.entries[trace.chosen].tile;
    if (way.name == k_oracle) truth_ = times_of(trace);
    judge(trace, result);
    return result;
  }

  /// The oracle's least time; 0 without an oracle.
  [[nodiscard]] double best_us() const {
    double best = 0;
    for (const auto& [tile, us] : truth_) best = best == 0 ? us : std::min(best, us);
    return best;
  }

  [[nodiscard]] double loss_of(const std::string& tile) const {
    const auto found = truth_.find(tile);
    return found == truth_.end() ? 0 : found->second / best_us() - 1;
  }

  [[nodiscard]] double instant_loss() const { return loss_of(to_string(ranked_.front().tile)); }

 private:
  static std::map<std::string, double> times_of(const SearchTrace& trace) {
    std::map<std::string, double> times;
    for (const SearchTraceEntry& entry : trace.entries) {
      if (const double us = time_of(entry); us > 0) times[entry.tile] = us;
    }
    return times;
  }

  CudaSearchTools tools_of(const CudaSearchInput& input, const Way& way) const {
    CudaSearchTools tools = local_cuda_tools(input, bench_.device);
    if (bench_.check_only) return rehearsal_tools(std::move(tools));
    if (way.name != k_oracle) return tools;
    tools.time = [time = tools.time](std::span<const CudaTuningCandidate> candidates,
                                     const TuningOptions& given) {
      TuningOptions options = given;
      options.drops = false;
      options.min_rounds = options.max_rounds = k_oracle_rounds;
      return time(candidates, options);
    };
    return tools;
  }

  void judge(const SearchTrace& trace, GpuSearchWay& result) const {
    result.loss = loss_of(result.tile);
    std::vector<double> times;
    std::vector<double> truth;
    for (const auto& [tile, us] : times_of(trace)) {
      const auto found = truth_.find(tile);
      if (found == truth_.end()) continue;
      times.push_back(us);
      truth.push_back(found->second);
    }
    result.tau = kendall_tau(times, truth);
  }

  const GpuBenchOptions& bench_;
  const Problem& problem_;
  CompileOptions options_;
  CudaDeviceInfo limits_;
  RowGroupings groupings_;
  std::vector<CudaCandidate> ranked_;
  std::map<std::string, double> truth_;  ///< microseconds by tile
};

GpuCase make_case(const CompileOptions& base, const GenerateOptions& generate, std::int64_t n) {
  GpuCase item;
  item.name = fmt::format("{}x{} {:.0f} % {} n={}", generate.rows, generate.cols,
                          100 * generate.sparsity, to_string(generate.pattern), n);
  item.problem.a = generate_matrix(generate);
  item.problem.n = n;
  item.options = base;
  return item;
}

}  // namespace

GpuSearchResult run_search(const GpuCase& item, const GpuBenchOptions& options) {
  GpuSearchResult result;
  result.name = item.name;
  result.nnz = item.problem.a->nnz();
  try {
    GpuSearchCase search(item, options);
    result.survivors = search.survivors();
    for (const Way& way : ways_of()) {
      const bool rehearsed = way.name == "ranked" || way.name == "proxy";
      if (options.check_only && !rehearsed) continue;
      result.ways.push_back(search.run(way));
      if (result.ways.back().tile.empty()) {
        throw Error(fmt::format("{} timed nothing: {}", way.name, result.ways.back().problem));
      }
    }
    result.best_us = search.best_us();
    result.instant_loss = search.instant_loss();
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  return result;
}

std::vector<GpuCase> search_cases(const CompileOptions& base) {
  struct Shape {
    std::int64_t rows;
    std::int64_t cols;
    double sparsity;
    MatrixPattern pattern;
  };
  constexpr Shape k_shapes[] = {
      {128, 96, 0.5, MatrixPattern::uniform},  // small: rehearsed
      {512, 512, 0.7, MatrixPattern::uniform},  {512, 512, 0.9, MatrixPattern::uneven_rows},
      {2048, 512, 0.9, MatrixPattern::uniform}, {512, 2048, 0.9, MatrixPattern::power_law},
      {2048, 512, 0.7, MatrixPattern::uniform}};
  std::vector<GpuCase> cases;
  for (const Shape& shape : k_shapes) {
    GenerateOptions generate;
    generate.rows = shape.rows;
    generate.cols = shape.cols;
    generate.sparsity = shape.sparsity;
    generate.pattern = shape.pattern;
    for (const std::int64_t n : {128, 512}) cases.push_back(make_case(base, generate, n));
  }
  return cases;
}

nlohmann::json to_json(const GpuSearchResult& result) {
  nlohmann::json ways = nlohmann::json::array();
  for (const GpuSearchWay& way : result.ways) {
    ways.push_back({{"way", way.way},
                    {"tile", way.tile},
                    {"timed", way.timed},
                    {"failed", way.failed},
                    {"loss", way.loss},
                    {"tau", way.tau},
                    {"seconds", way.seconds},
                    {"problem", way.problem}});
  }
  return {{"name", result.name},
          {"nnz", result.nnz},
          {"survivors", result.survivors},
          {"best_us", result.best_us},
          {"instant_loss", result.instant_loss},
          {"ways", std::move(ways)},
          {"failure", result.failure}};
}

std::string search_table(const std::vector<GpuSearchResult>& results) {
  std::string text;
  for (const GpuSearchResult& result : results) {
    text += fmt::format(
        "{}: {} nonzeros, {} tiles, best {:.2f} us, first of the ranking {:.1f} % "
        "slower\n",
        result.name, result.nnz, result.survivors, result.best_us, 100 * result.instant_loss);
    for (const GpuSearchWay& way : result.ways) {
      text += fmt::format(
          "  {:<12} {:<16} loss {:>5.1f} %  tau {:>5.2f}  {:>7.2f} s  {} timed, {} "
          "failed\n",
          way.way, way.tile, 100 * way.loss, way.tau, way.seconds, way.timed, way.failed);
    }
    if (!result.failure.empty()) text += fmt::format("  FAILED: {}\n", result.failure);
  }
  return text;
}

}  // namespace spjit::bench
