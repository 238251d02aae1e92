#pragma once

/// @file
/// Draws for synthetic matrices, in integers only, so that they are the same everywhere; among them
/// the positions that magnitude pruning would keep.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matrix/random.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// `count` distinct numbers, ascending: draws until that many differ. Precondition: `draw()` can
/// give that many, none of them rarely.
template <typename Draw>
[[nodiscard]] std::vector<std::uint64_t> draw_distinct(std::size_t count, Draw&& draw) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(count);
  while (numbers.size() < count) {
    const auto known = static_cast<std::ptrdiff_t>(numbers.size());
    while (numbers.size() < count) {
      numbers.push_back(draw());
    }
    std::sort(numbers.begin() + known, numbers.end());
    std::inplace_merge(numbers.begin(), numbers.begin() + known, numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  }
  return numbers;
}

/// `count` of the numbers below `bound`, ascending, every set of them equally likely. Time and
/// memory go with `count`. Precondition: count <= bound.
[[nodiscard]] std::vector<std::uint64_t> sample_below(RandomStream& random, std::uint64_t count,
                                                      std::uint64_t bound);

/// 0 .. size - 1 in random order.
[[nodiscard]] std::vector<std::uint32_t> shuffled(RandomStream& random, std::int64_t size);

/// Splits `total` in proportion to `weights`, rounded, no share above `cap`; what a capped share
/// leaves goes to the others in proportion. The shares sum to `total` exactly. Preconditions:
/// weights are 1 .. 2^31, total <= cap * their number.
[[nodiscard]] std::vector<std::int64_t> split_by_weight(std::int64_t total,
                                                        const std::vector<std::uint64_t>& weights,
                                                        std::int64_t cap);

/// 2^16 z, z about normal with mean 0 and deviation 1: a sum of 12 uniform numbers, so |z| <= 6.
[[nodiscard]] std::int64_t normal_draw(RandomStream& random);

/// A weight 2^20 * exp(z), z from normal_draw(), 2^x taken as linear between whole powers. Between
/// 2^11 and 2^29.
[[nodiscard]] std::uint64_t log_normal_weight(RandomStream& random);

/// The positions of the `nnz` largest of rows x cols made-up weights, each row factor x column
/// factor x |z|: factors are exp(z / 8), z normal with deviation 1 (sums of uniform numbers). The
/// rows and columns of a trained layer differ in scale, and one threshold for all of it leaves some
/// fuller than others. At 90 % sparsity nonzeros a row vary by about 0.4, as in layers of DLMC.
/// Without values. 16 bytes of memory a cell while it is made. Precondition: 1 <= nnz <= rows x
/// cols.
[[nodiscard]] CsrMatrix magnitude_positions(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                                            RandomStream random);

}  // namespace spjit
