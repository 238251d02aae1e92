#include "rankmodel/rank_metrics.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "spjit/error.hpp"

namespace spjit {

double kendall_tau(std::span<const double> left, std::span<const double> right) {
  if (left.size() != right.size()) {
    throw InvalidArgument(
        fmt::format("rankings of {} and {} items; expected as many", left.size(), right.size()));
  }
  double sum = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double product = (left[i] - left[j]) * (right[i] - right[j]);
      if (product != 0) sum += product > 0 ? 1 : -1;
      ++pairs;
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

}  // namespace spjit
