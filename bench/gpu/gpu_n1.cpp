#include "bench/gpu/gpu_n1.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>

#include "bench/gpu/search_case.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace spjit::bench {
namespace {

constexpr std::int64_t k_rows_a_tile = 32;

/// The comparison varies N1 and nothing else.
bool is_compared(const CudaCandidate& candidate) {
  return candidate.tile.tiles_a_block == 1 && candidate.tile.cap == CudaCap::device &&
         std::ranges::find(k_compared_n1, candidate.tile.n1) != std::end(k_compared_n1);
}

N1Point point_of(const CudaCandidate& candidate, const SearchTraceEntry& entry) {
  N1Point point;
  point.n1 = candidate.tile.n1;
  point.tile = entry.tile;
  point.us = time_of(entry);
  point.code_bytes = candidate.code_bytes;
  const auto column_tiles = static_cast<double>(candidate.column_tiles);
  point.fetched_bytes = column_tiles * static_cast<double>(candidate.code_bytes);
  point.loaded_bytes = static_cast<double>(candidate.grouping.nnc_sum) *
                       static_cast<double>(candidate.work.n) * sizeof(float);
  if (entry.full && !entry.full->failure.empty()) point.problem = entry.full->failure;
  return point;
}

void fill(N1Result& result, const GpuCase& item, const GpuBenchOptions& options) {
  SearchCase tiles(item, options, is_compared);
  const SearchTrace trace = tiles.run(oracle_way());
  std::vector<N1Time> times;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    result.points.push_back(point_of(tiles.tiles()[i], trace.entries[i]));
    const N1Point& point = result.points.back();
    if (point.us > 0) times.push_back({point.n1, point.us});
    if (!point.problem.empty()) result.failure = point.problem;
  }
  std::ranges::sort(result.points, {}, &N1Point::n1);
  if (result.points.size() < std::size(k_compared_n1) && result.failure.empty()) {
    result.failure =
        fmt::format("the rules leave {} of {} N1", result.points.size(), std::size(k_compared_n1));
  }
  result.fit = fit_fetch(times);
}

}  // namespace

N1Result run_n1(const GpuCase& item, const GpuBenchOptions& options) {
  N1Result result;
  result.name = item.name;
  result.nnz = item.problem.a->nnz();
  result.n = item.problem.n.value;
  result.timed = !options.check_only;
  GpuBenchOptions all = options;
  all.most_tiles = 0;
  try {
    fill(result, item, all);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  return result;
}

std::vector<GpuCase> n1_cases(const CompileOptions& base, bool check_only) {
  GenerateOptions generate;
  generate.rows = check_only ? 64 : 2048;
  generate.cols = check_only ? 32 : 512;
  generate.sparsity = 0.9;
  GpuCase item;
  item.problem.a = generate_matrix(generate);
  item.problem.n = check_only ? 8448 : 4096;
  item.name = fmt::format("{}x{} {:.0f} % n={}", generate.rows, generate.cols,
                          100 * generate.sparsity, item.problem.n.value);
  item.options = base;
  item.options.policy.values["m1"] = std::to_string(k_rows_a_tile);
  return {std::move(item)};
}

nlohmann::json to_json(const N1Result& result) {
  const auto measured = [&](double value) {
    return result.timed && value > 0 ? nlohmann::json(value) : nlohmann::json();
  };
  nlohmann::json points = nlohmann::json::array();
  for (const N1Point& point : result.points) {
    points.push_back({{"n1", point.n1},
                      {"tile", point.tile},
                      {"median_us", measured(point.us)},
                      {"code_bytes_estimated", point.code_bytes},
                      {"fetched_bytes_counted", point.fetched_bytes},
                      {"b_bytes_counted", point.loaded_bytes},
                      {"fetch_share_fitted",
                       result.fit ? measured(result.fit->share_at(point.n1)) : nlohmann::json()},
                      {"problem", point.problem}});
  }
  return {
      {"name", result.name},
      {"nnz", result.nnz},
      {"n", result.n},
      {"points", std::move(points)},
      {"other_us_fitted", result.fit ? measured(result.fit->other_us) : nlohmann::json()},
      {"fit_relative_error", result.fit ? measured(result.fit->relative_error) : nlohmann::json()},
      {"failure", result.failure}};
}

std::string n1_table(const N1Result& result) {
  std::string text = fmt::format("{}: {} nonzeros\n", result.name, result.nnz);
  for (const N1Point& point : result.points) {
    text += fmt::format("  N1={:<4} ", point.n1);
    if (!result.timed || point.us <= 0) {
      text += point.problem.empty() ? "launched, not timed\n" : point.problem + "\n";
      continue;
    }
    const double us = point.us;
    text += fmt::format("{:>9.2f} us  {:>7.1f} GB/s of code  {:>7.1f} GB/s of B (counted bytes)",
                        us, point.fetched_bytes / us / 1e3, point.loaded_bytes / us / 1e3);
    text += result.fit ? fmt::format("  falls as 1/N1: {:>3.0f} % (fit, off by {:.1f} %)\n",
                                     100 * result.fit->share_at(point.n1),
                                     100 * result.fit->relative_error)
                       : "\n";
  }
  if (!result.failure.empty()) text += fmt::format("  FAILED: {}\n", result.failure);
  return text;
}

}  // namespace spjit::bench
