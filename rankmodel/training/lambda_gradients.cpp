#include "rankmodel/training/lambda_gradients.hpp"

#include <algorithm>
#include <cmath>

#include "rankmodel/rank_metrics.hpp"

namespace spjit {
namespace {

constexpr float k_least_second = 1e-16F;  // a leaf divides by their sum

double gain(int grade) { return std::ldexp(1.0, grade) - 1; }

double discount(std::size_t place, std::size_t k) {
  return place < k ? 1 / std::log2(static_cast<double>(place) + 2) : 0;
}

double best_dcg(std::size_t k, std::span<const int> grades) {
  std::vector<int> best(grades.begin(), grades.end());
  std::ranges::sort(best, std::greater<>());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(k, best.size()); ++i) sum += gain(best[i]) * discount(i, k);
  return sum;
}

struct Sums {
  std::vector<double> first;
  std::vector<double> second;
  double pairs = 0;  // of the sizes of all pairs' first derivatives
};

Gradients scaled(const Sums& sums) {
  // Each pair adds to two tiles.
  const double size = 2 * sums.pairs;
  const double scale = size > 0 ? std::log2(1 + size) / size : 0;
  Gradients result;
  for (std::size_t i = 0; i < sums.first.size(); ++i) {
    result.first.push_back(static_cast<float>(sums.first[i] * scale));
    result.second.push_back(std::max(static_cast<float>(sums.second[i] * scale), k_least_second));
  }
  return result;
}

}  // namespace

Gradients lambda_gradients(std::size_t k, std::span<const float> scores,
                           std::span<const int> grades) {
  const std::size_t count = scores.size();
  Sums sums{.first = std::vector<double>(count, 0), .second = std::vector<double>(count, 0)};
  const double best = best_dcg(k, grades);
  const std::vector<double> wide(scores.begin(), scores.end());
  const std::vector<std::size_t> order = order_by_score(wide);
  for (std::size_t high = 0; best > 0 && high < std::min(k, count); ++high) {
    for (std::size_t low = high + 1; low < count; ++low) {
      std::size_t i = order[high];
      std::size_t j = order[low];
      if (grades[i] == grades[j]) continue;
      if (grades[i] < grades[j]) std::swap(i, j);
      const double d =
          (gain(grades[i]) - gain(grades[j])) * (discount(high, k) - discount(low, k)) / best;
      const double p = 1 / (1 + std::exp(wide[i] - wide[j]));
      sums.first[i] -= d * p;
      sums.first[j] += d * p;
      sums.second[i] += d * p * (1 - p);
      sums.second[j] += d * p * (1 - p);
      sums.pairs += d * p;
    }
  }
  return scaled(sums);
}

}  // namespace spjit
