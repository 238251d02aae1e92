#include "matrix/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace spjit {
namespace {

// total * weight outgrows 64 bits.
__extension__ using Wide = unsigned __int128;

constexpr std::int64_t k_one = 1 << 16;  // fixed point

std::vector<std::uint64_t> complement(const std::vector<std::uint64_t>& numbers,
                                      std::uint64_t bound) {
  std::vector<std::uint64_t> others;
  others.reserve(bound - numbers.size());
  auto skip = numbers.begin();
  for (std::uint64_t number = 0; number < bound; ++number) {
    if (skip != numbers.end() && *skip == number) {
      ++skip;
    } else {
      others.push_back(number);
    }
  }
  return others;
}

/// The largest integer whose square is at most `value`, which is at most 2^53.
std::uint64_t integer_root(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

/// About 2^14 * exp(z / 8) each: below 2^16.
std::vector<std::uint64_t> draw_factors(std::int64_t count, RandomStream& random) {
  std::vector<std::uint64_t> factors;
  factors.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t factor = log_normal_weight(random);
    for (int halving = 0; halving < 3; ++halving) factor = integer_root(factor << 24U);
    factors.push_back(factor >> 9U);
  }
  return factors;
}

}  // namespace

std::vector<std::uint64_t> sample_below(RandomStream& random, std::uint64_t count,
                                        std::uint64_t bound) {
  // More than half is drawn as what is left out: the last few of many would take many draws.
  const bool leave_out = count > bound / 2;
  std::vector<std::uint64_t> numbers =
      draw_distinct(leave_out ? bound - count : count, [&] { return random.below(bound); });
  return leave_out ? complement(numbers, bound) : numbers;
}

std::vector<std::uint32_t> shuffled(RandomStream& random, std::int64_t size) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

std::vector<std::int64_t> split_by_weight(std::int64_t total,
                                          const std::vector<std::uint64_t>& weights,
                                          std::int64_t cap) {
  std::vector<std::int64_t> shares(weights.size(), -1);
  auto left = static_cast<std::uint64_t>(total);
  const auto limit = static_cast<std::uint64_t>(cap);
  std::uint64_t weight_left = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  // Capping one share raises the others, which may push more of them over the cap.
  for (bool capped = true; capped;) {
    capped = false;
    const std::uint64_t round_left = left;
    const std::uint64_t round_weight = weight_left;
    for (std::size_t at = 0; at < weights.size(); ++at) {
      if (shares[at] < 0 && Wide{round_left} * weights[at] > Wide{limit} * round_weight) {
        shares[at] = cap;
        left -= limit;
        weight_left -= weights[at];
        capped = true;
      }
    }
  }
  // Differences of a rounded running sum: each within 1 of its share, together exact.
  std::uint64_t weight_done = 0;
  std::uint64_t done = 0;
  for (std::size_t at = 0; at < weights.size(); ++at) {
    if (shares[at] < 0) {
      weight_done += weights[at];
      const auto upto = static_cast<std::uint64_t>(Wide{left} * weight_done / weight_left);
      shares[at] = static_cast<std::int64_t>(upto - done);
      done = upto;
    }
  }
  return shares;
}

std::int64_t normal_draw(RandomStream& random) {
  std::int64_t z = -6 * k_one;  // the mean of the sum; its deviation is k_one
  for (int draw = 0; draw < 3; ++draw) {
    for (std::uint64_t word = random.next(), part = 0; part < 4; ++part, word >>= 16U) {
      z += static_cast<std::int64_t>(word & 0xFFFFU);
    }
  }
  return z;
}

std::uint64_t log_normal_weight(RandomStream& random) {
  constexpr std::int64_t k_log2_of_e = 94548;  // 1.442695 * k_one
  const std::int64_t exponent = (normal_draw(random) * k_log2_of_e) >> 16;
  const std::int64_t whole = exponent >> 16;
  const std::int64_t fraction = exponent & (k_one - 1);
  return static_cast<std::uint64_t>(((k_one + fraction) << (whole + 20)) >> 16);
}

CsrMatrix magnitude_positions(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                              RandomStream random) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  const std::vector<std::uint64_t> row_factors = draw_factors(rows, random);
  const std::vector<std::uint64_t> col_factors = draw_factors(cols, random);
  std::vector<std::uint64_t> magnitudes;
  magnitudes.reserve(row_factors.size() * col_factors.size());
  for (const std::uint64_t row : row_factors) {
    for (const std::uint64_t col : col_factors) {
      const auto z = static_cast<std::uint64_t>(std::abs(normal_draw(random)));  // below 2^19
      magnitudes.push_back(row * col * z);
    }
  }
  std::vector<std::uint64_t> sorted = magnitudes;
  const auto kept = static_cast<std::ptrdiff_t>(nnz);
  std::nth_element(sorted.begin(), sorted.begin() + kept - 1, sorted.end(), std::greater<>());
  const std::uint64_t least = sorted[static_cast<std::size_t>(nnz) - 1];
  // Of those as large as the least one the first are kept, so that there are exactly nnz.
  auto ties = kept - std::count_if(sorted.begin(), sorted.begin() + kept,
                                   [&](std::uint64_t magnitude) { return magnitude > least; });
  auto magnitude = magnitudes.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col, ++magnitude) {
      if (*magnitude < least || (*magnitude == least && ties-- <= 0)) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace spjit
