#include "bench/gpu/fetch_fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

namespace spjit::bench {
namespace {

constexpr std::size_t k_least_points = 3;

double relative_error_of(const FetchFit& fit, std::span<const N1Time> times) {
  double sum = 0;
  for (const N1Time& time : times) {
    const double fitted = fit.other_us + fit.fetch_us_columns / static_cast<double>(time.n1);
    sum += std::pow((time.us - fitted) / time.us, 2);
  }
  return std::sqrt(sum / static_cast<double>(times.size()));
}

}  // namespace

double FetchFit::share_at(std::int64_t n1) const {
  const double fetch = fetch_us_columns / static_cast<double>(n1);
  const double all = other_us + fetch;
  return all > 0 ? fetch / all : 0;
}

std::optional<FetchFit> fit_fetch(std::span<const N1Time> times) {
  std::set<std::int64_t> sizes;
  double mean_x = 0;
  double mean_y = 0;
  for (const N1Time& time : times) {
    if (time.n1 <= 0 || !(time.us > 0)) return std::nullopt;
    sizes.insert(time.n1);
    mean_x += 1 / static_cast<double>(time.n1);
    mean_y += time.us;
  }
  if (sizes.size() < k_least_points) return std::nullopt;
  const auto count = static_cast<double>(times.size());
  mean_x /= count;
  mean_y /= count;
  double xx = 0;
  double xy = 0;
  double through_zero_xx = 0;
  double through_zero_xy = 0;
  for (const N1Time& time : times) {
    const double x = 1 / static_cast<double>(time.n1);
    xx += (x - mean_x) * (x - mean_x);
    xy += (x - mean_x) * (time.us - mean_y);
    through_zero_xx += x * x;
    through_zero_xy += x * time.us;
  }
  FetchFit fit;
  fit.fetch_us_columns = std::max(0.0, xy / xx);
  fit.other_us = mean_y - fit.fetch_us_columns * mean_x;
  if (fit.other_us < 0) {
    fit.other_us = 0;
    fit.fetch_us_columns = through_zero_xy / through_zero_xx;
  }
  fit.relative_error = relative_error_of(fit, times);
  return fit;
}

}  // namespace spjit::bench
