#include "bench/gpu/gpu_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "bench/rank_agreement.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_proxy_alone = "proxy-alone";

CudaReductions without(bool CudaReductions::*reduction) {
  CudaReductions all;
  all.*reduction = false;
  return all;
}

bool has_failed(const SearchTraceEntry& entry) {
  const auto failed = [](const std::optional<TuningResult>& result) {
    return result && result->outcome == TuningOutcome::failed;
  };
  return failed(entry.full) || failed(entry.proxy);
}

const std::string& failure_of(const SearchTraceEntry& entry) {
  const bool by_proxy = entry.proxy && !entry.proxy->failure.empty();
  return by_proxy ? entry.proxy->failure : entry.full->failure;
}

double least(const TileTimes& times) {
  double best = 0;
  for (const auto& [tile, us] : times) best = best == 0 ? us : std::min(best, us);
  return best;
}

double loss_of(const std::string& tile, const TileTimes& truth) {
  const auto found = truth.find(tile);
  return found == truth.end() ? 0 : found->second / least(truth) - 1;
}

GpuSearchWay summarize(const SearchWay& way, const SearchTrace& trace) {
  GpuSearchWay result;
  result.way = way.name;
  result.seconds = (trace.proxy_ms + trace.full_ms) / 1e3;
  for (const SearchTraceEntry& entry : trace.entries) {
    if (time_of(entry) > 0) ++result.timed;
    if (!has_failed(entry)) continue;
    ++result.failed;
    if (result.problem.empty()) result.problem = failure_of(entry);
  }
  if (trace.timed) result.tile = trace.entries[trace.chosen].tile;
  return result;
}

/// Two are enough to see every step.
std::vector<SearchWay> wanted_ways(const GpuBenchOptions& options) {
  std::vector<SearchWay> ways = search_ways();
  if (options.check_only) ways.resize(2);
  return ways;
}

void run_ways(SearchCase& tiles, const GpuBenchOptions& options, GpuSearchResult& result) {
  for (const SearchWay& way : wanted_ways(options)) {
    const SearchTrace trace = tiles.run(way);
    result.ways.push_back(summarize(way, trace));
    GpuSearchWay& last = result.ways.back();
    if (last.tile.empty()) {
      throw Error(fmt::format("{} timed nothing: {}", way.name, last.problem));
    }
    const TileTimes times = times_of(trace);
    if (way.name == oracle_way().name) result.truth = times;
    if (way.name == k_proxy_alone) result.proxies = times;
    judge(times, result.truth, last);
  }
}

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

std::vector<SearchWay> search_ways() {
  const auto reduced = [](const char* name, bool CudaReductions::*reduction) {
    return SearchWay{name, SearchMode::proxy, CudaSource::ptx, without(reduction)};
  };
  return {oracle_way(),
          {k_proxy_alone, SearchMode::proxy},
          {"proxy-c++", SearchMode::proxy, CudaSource::cuda},
          reduced("-kernels", &CudaReductions::kernels),
          reduced("-blocks", &CudaReductions::blocks),
          reduced("-iterations", &CudaReductions::iterations),
          reduced("-occupancy", &CudaReductions::occupancy)};
}

void judge(const TileTimes& times, const TileTimes& truth, GpuSearchWay& way) {
  way.loss = loss_of(way.tile, truth);
  std::vector<double> scores;  // the greater, the faster
  std::vector<double> own;
  std::vector<double> expected;
  for (const auto& [tile, us] : times) {
    const auto found = truth.find(tile);
    if (found == truth.end()) continue;
    own.push_back(us);
    scores.push_back(-us);
    expected.push_back(found->second);
  }
  way.tau = kendall_tau(own, expected);
  way.pair_accuracy = ordered_pair_accuracy(scores, expected);
}

GpuSearchResult run_search(const GpuCase& item, const GpuBenchOptions& options) {
  GpuSearchResult result;
  result.name = item.name;
  result.nnz = item.problem.a->nnz();
  result.timed = !options.check_only;
  try {
    SearchCase tiles(item, options);
    result.tiles = tiles.tiles().size();
    run_ways(tiles, options, result);
    result.best_us = least(result.truth);
    result.instant_loss = loss_of(to_string(tiles.tiles().front().tile), result.truth);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  return result;
}

std::size_t fill_search(const GpuCase& item, const GpuBenchOptions& options) {
  SearchCase tiles(item, options);
  std::size_t failed = 0;
  for (const SearchWay& way : wanted_ways(options)) {
    failed += summarize(way, tiles.run(way)).failed;
  }
  return failed;
}

std::vector<GpuCase> search_cases(const CompileOptions& base, bool check_only) {
  struct Shape {
    std::int64_t rows;
    std::int64_t cols;
    double sparsity;
    MatrixPattern pattern;
  };
  std::vector<Shape> shapes = {
      {128, 96, 0.5, MatrixPattern::uniform},      {512, 512, 0.7, MatrixPattern::uniform},
      {512, 512, 0.9, MatrixPattern::uneven_rows}, {2048, 512, 0.9, MatrixPattern::uniform},
      {512, 2048, 0.9, MatrixPattern::power_law},  {2048, 512, 0.7, MatrixPattern::uniform}};
  if (check_only) shapes = {{128, 48, 0.9, MatrixPattern::uniform}};
  std::vector<GpuCase> cases;
  for (const Shape& shape : shapes) {
    GenerateOptions generate;
    generate.rows = shape.rows;
    generate.cols = shape.cols;
    generate.sparsity = shape.sparsity;
    generate.pattern = shape.pattern;
    for (const std::int64_t n : {128, 512}) {
      if (!check_only || n == 128) cases.push_back(make_case(base, generate, n));
    }
  }
  return cases;
}

nlohmann::json to_json(const GpuSearchResult& result) {
  const auto measured = [&](double value) {
    return result.timed ? nlohmann::json(value) : nlohmann::json();
  };
  nlohmann::json ways = nlohmann::json::array();
  for (const GpuSearchWay& way : result.ways) {
    ways.push_back({{"way", way.way},
                    {"tile", way.tile},
                    {"timed", way.timed},
                    {"failed", way.failed},
                    {"loss", measured(way.loss)},
                    {"tau", measured(way.tau)},
                    {"pair_accuracy", measured(way.pair_accuracy)},
                    {"seconds", measured(way.seconds)},
                    {"problem", way.problem}});
  }
  nlohmann::json tiles = nlohmann::json::array();
  for (const auto& [tile, us] : result.truth) {
    const auto proxy = result.proxies.find(tile);
    const bool has_proxy = proxy != result.proxies.end();
    tiles.push_back({{"tile", tile},
                     {"us", measured(us)},
                     {"proxy_us", has_proxy ? measured(proxy->second) : nlohmann::json()}});
  }
  return {{"name", result.name},
          {"nnz", result.nnz},
          {"survivors", result.tiles},
          {"best_us", measured(result.best_us)},
          {"instant_loss", measured(result.instant_loss)},
          {"ways", std::move(ways)},
          {"tiles", std::move(tiles)},
          {"failure", result.failure}};
}

std::string search_table(const GpuSearchResult& result) {
  std::string text =
      fmt::format("{}: {} nonzeros, {} tiles", result.name, result.nnz, result.tiles);
  text += result.timed ? fmt::format(", best {:.2f} us, first of the ranking {:.1f} % slower\n",
                                     result.best_us, 100 * result.instant_loss)
                       : std::string(", rehearsed: no times\n");
  for (const GpuSearchWay& way : result.ways) {
    if (!result.timed) {
      text +=
          fmt::format("  {:<12} {} tiles launched, {} failed\n", way.way, way.timed, way.failed);
      continue;
    }
    text += fmt::format(
        "  {:<12} {:<16} loss {:>5.1f} %  tau {:>5.2f}  pairs {:>5.1f} %  {:>7.2f} s  {} timed, {} "
        "failed\n",
        way.way, way.tile, 100 * way.loss, way.tau, 100 * way.pair_accuracy, way.seconds, way.timed,
        way.failed);
  }
  if (!result.failure.empty()) text += fmt::format("  FAILED: {}\n", result.failure);
  return text;
}

}  // namespace spjit::bench
