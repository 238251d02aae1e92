#include "bench/host/goals.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

namespace spjit::bench {
namespace {

using Filter = std::function<bool(const CaseResult&)>;
using Value = std::function<std::optional<double>(const CaseResult&)>;

// DLMC's layers reach their nominal sparsity to a tenth of a per cent.
bool is_sparse(const CaseResult& result, double sparsity) {
  return std::abs(result.sparsity() - sparsity) < 0.005;
}

bool has_shape(const CaseResult& result, std::int64_t rows, std::int64_t cols) {
  return result.rows == rows && result.cols == cols;
}

std::string describe(const CaseResult& result) {
  return fmt::format("{} n={} t={}", result.matrix, result.n, result.threads);
}

/// A goal, and which way of missing it there is.
struct Goal {
  std::string text;
  double wanted = 0;
  std::string unit;
  bool at_least = true;  ///< else: at most
};

GoalResult judge(const Goal& goal, double measured, std::string where) {
  const bool met = goal.at_least ? measured >= goal.wanted : measured <= goal.wanted;
  return {goal.text, measured,         goal.wanted,
          goal.unit, std::move(where), met ? GoalResult::State::met : GoalResult::State::not_met};
}

GoalResult no_data(const Goal& goal) {
  return {goal.text, 0, goal.wanted, goal.unit, "no case", GoalResult::State::no_data};
}

/// The worst of the cases that pass the filter.
GoalResult worst(const Goal& goal, std::span<const CaseResult> cases, const Filter& filter,
                 const Value& value) {
  std::optional<double> found;
  std::string where;
  for (const CaseResult& result : cases) {
    if (!filter(result)) continue;
    const std::optional<double> measured = value(result);
    if (!measured) continue;
    const bool worse = !found || (goal.at_least ? *measured < *found : *measured > *found);
    if (!worse) continue;
    found = measured;
    where = describe(result);
  }
  return found ? judge(goal, *found, where) : no_data(goal);
}

GoalResult geometric_mean(const Goal& goal, std::span<const CaseResult> cases, const Filter& filter,
                          const Value& value) {
  double sum = 0;
  int count = 0;
  for (const CaseResult& result : cases) {
    const std::optional<double> measured = filter(result) ? value(result) : std::nullopt;
    if (!measured) continue;
    sum += std::log(*measured);
    ++count;
  }
  if (count == 0) return no_data(goal);
  return judge(goal, std::exp(sum / count), fmt::format("{} cases", count));
}

std::optional<double> percent_of_peak(const CaseResult& result) {
  return 100 * result.peak_share(result.kernel);
}

std::optional<double> speedup_over_dense(const CaseResult& result) {
  if (!result.dense) return std::nullopt;
  return result.dense->median_us / result.kernel.median_us;
}

/// Time on one thread over time on two, for the two-thread cases that have a one-thread partner.
Value speedup_of_two_threads(std::span<const CaseResult> cases) {
  return [cases](const CaseResult& two) -> std::optional<double> {
    for (const CaseResult& one : cases) {
      if (one.threads == 1 && one.matrix == two.matrix && one.n == two.n) {
        return one.kernel.median_us / two.kernel.median_us;
      }
    }
    return std::nullopt;
  };
}

void add_peak_goals(std::span<const CaseResult> cases, std::vector<GoalResult>& goals) {
  for (const auto& [sparsity, wanted] :
       {std::pair{0.5, 95.0}, {0.7, 95.0}, {0.8, 95.0}, {0.9, 95.0}, {0.95, 85.0}}) {
    const Goal goal{fmt::format("512 x 512, {:.0f} % sparse, n = 128: >= {:.0f} % of peak",
                                100 * sparsity, wanted),
                    wanted, "% of peak"};
    goals.push_back(worst(
        goal, cases,
        [s = sparsity](const CaseResult& result) {
          return result.threads == 1 && result.n == 128 && has_shape(result, 512, 512) &&
                 is_sparse(result, s);
        },
        percent_of_peak));
  }
  for (const auto& [rows, cols] : {std::pair{2048, 512}, {512, 2048}, {2048, 1024}}) {
    for (const double sparsity : {0.9, 0.95}) {
      const Goal goal{fmt::format("{} x {}, {:.0f} % sparse, n = 512: >= 75 % of peak", rows, cols,
                                  100 * sparsity),
                      75, "% of peak"};
      goals.push_back(worst(
          goal, cases,
          [r = rows, c = cols, sparsity](const CaseResult& result) {
            return result.threads == 1 && result.n == 512 && has_shape(result, r, c) &&
                   is_sparse(result, sparsity);
          },
          percent_of_peak));
    }
  }
}

void add_speedup_goals(std::span<const CaseResult> cases, std::vector<GoalResult>& goals) {
  const auto at_90 = [](const CaseResult& result) {
    return result.threads == 1 && is_sparse(result, 0.9) && result.nnz > 0;
  };
  goals.push_back(geometric_mean({"90 % sparse: geometric mean >= 8 x OpenBLAS", 8, "x"}, cases,
                                 at_90, speedup_over_dense));
  const auto two_threads = [](const CaseResult& result) {
    return result.threads == 2 && result.nnz > 50'000;
  };
  goals.push_back(worst({"two threads, over 50k nonzeros: >= 1.8 x one thread", 1.8, "x"}, cases,
                        two_threads, speedup_of_two_threads(cases)));
  goals.push_back(geometric_mean({"the same, geometric mean", 1.8, "x"}, cases, two_threads,
                                 speedup_of_two_threads(cases)));
}

void add_compile_goals(std::span<const CaseResult> cases, std::vector<GoalResult>& goals) {
  // Below that the rate is that of the clock and the allocator.
  constexpr std::int64_t k_enough_nonzeros = 20'000;
  goals.push_back(worst(
      {"encoding: <= 10 ms per 100k nonzeros", 10, "ms", false}, cases,
      [](const CaseResult& result) {
        return result.code_bytes > 0 && result.nnz >= k_enough_nonzeros;
      },
      [](const CaseResult& result) {
        return result.encode_ms * 1e5 / static_cast<double>(result.nnz);
      }));
  goals.push_back(worst(
      {"cold compile of 512 x 512, 90 % sparse, all in: <= 50 ms", 50, "ms", false}, cases,
      [](const CaseResult& result) {
        return has_shape(result, 512, 512) && is_sparse(result, 0.9);
      },
      [](const CaseResult& result) { return result.cold_compile_ms; }));
  const auto has_2m = [](const CaseResult& result) { return result.nnz >= 1'999'000; };
  goals.push_back(worst({"2M nonzeros compile: <= 2 s", 2000, "ms", false}, cases, has_2m,
                        [](const CaseResult& result) { return result.cold_compile_ms; }));
  goals.push_back(
      worst({"2M nonzeros: faster than dense", 1, "x"}, cases, has_2m, speedup_over_dense));
  goals.push_back(worst(
      {"warm cache hit of 512 x 512, 90 % sparse: <= 1 ms", 1, "ms", false}, cases,
      [](const CaseResult& result) {
        return has_shape(result, 512, 512) && is_sparse(result, 0.9);
      },
      [](const CaseResult& result) { return result.warm_hit_ms; }));
  goals.push_back(worst(
      {"warm cache hit of any DLMC layer: <= 1 ms", 1, "ms", false}, cases,
      [](const CaseResult& result) { return result.source == "dlmc"; },
      [](const CaseResult& result) { return result.warm_hit_ms; }));
}

}  // namespace

std::string to_string(GoalResult::State state) {
  if (state == GoalResult::State::met) return "MET";
  return state == GoalResult::State::not_met ? "NOT MET" : "NO DATA";
}

std::vector<GoalResult> evaluate_goals(std::span<const CaseResult> cases) {
  std::vector<GoalResult> goals;
  add_peak_goals(cases, goals);
  add_speedup_goals(cases, goals);
  add_compile_goals(cases, goals);
  return goals;
}

}  // namespace spjit::bench
