#include "rankmodel/rank_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr double k_as_good_as_best = 0.98;
constexpr int k_most_grade = 60;  // 2^60 - 1: sums of gains stay far from overflow

void check_lengths(std::size_t left, std::size_t right) {
  if (left != right) {
    throw InvalidArgument(
        fmt::format("rankings of {} and {} items; expected as many", left, right));
  }
}

void check_top(std::size_t k, std::size_t items) {
  if (k == 0 || items == 0) {
    throw InvalidArgument(fmt::format("the first {} of {} items; expected at least one", k, items));
  }
}

// Of grades in ranked order.
double discounted_gain(std::size_t k, std::span<const int> grades) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(k, grades.size()); ++i) {
    sum += (std::ldexp(1.0, grades[i]) - 1) / std::log2(static_cast<double>(i) + 2);
  }
  return sum;
}

}  // namespace

std::vector<std::size_t> order_by_score(std::span<const double> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

std::vector<int> relevance_grades(std::span<const double> times, int top) {
  if (top < 1 || top > k_top_grade) {
    throw InvalidArgument(fmt::format("grades up to {}; expected 1 to {}", top, k_top_grade));
  }
  for (const double time : times) {
    if (!(time > 0)) throw InvalidArgument(fmt::format("a time of {}; expected more than 0", time));
  }
  std::vector<int> grades;
  const double best = times.empty() ? 0 : std::ranges::min(times);
  for (const double time : times) {
    const double relative = std::isinf(time) ? 0 : best / time;
    const double part = std::min(relative / k_as_good_as_best, 1.0);
    grades.push_back(static_cast<int>(part * top));
  }
  return grades;
}

double ndcg_at(std::size_t k, std::span<const int> grades_in_ranked_order) {
  if (k == 0) throw InvalidArgument("NDCG of the first 0; expected at least one");
  for (const int grade : grades_in_ranked_order) {
    if (grade < 0 || grade > k_most_grade) {
      throw InvalidArgument(fmt::format("a grade of {}; expected 0 to {}", grade, k_most_grade));
    }
  }
  std::vector<int> best(grades_in_ranked_order.begin(), grades_in_ranked_order.end());
  std::ranges::sort(best, std::greater<>());
  const double ideal = discounted_gain(k, best);
  return ideal > 0 ? discounted_gain(k, grades_in_ranked_order) / ideal : 1;
}

double ndcg_at(std::size_t k, std::span<const double> scores, std::span<const int> grades) {
  check_lengths(scores.size(), grades.size());
  std::vector<int> ranked;
  for (const std::size_t i : order_by_score(scores)) ranked.push_back(grades[i]);
  return ndcg_at(k, ranked);
}

double regret_of_top(std::size_t k, std::span<const double> scores, std::span<const double> times) {
  check_lengths(scores.size(), times.size());
  check_top(k, times.size());
  const double least = std::ranges::min(times);
  if (std::isinf(least)) return 0;
  const std::vector<std::size_t> order = order_by_score(scores);
  double found = times[order[0]];
  for (std::size_t i = 1; i < std::min(k, order.size()); ++i) {
    found = std::min(found, times[order[i]]);
  }
  return found / least - 1;
}

Percentiles percentiles(std::span<const double> values) {
  check_top(1, values.size());
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  const std::size_t rank = (sorted.size() * 95 + 99) / 100;
  return {.mean = sum / static_cast<double>(sorted.size()),
          .p95 = sorted[rank - 1],
          .worst = sorted.back()};
}

}  // namespace spjit
