#include "kernels/host/unrolled/weight_positions.hpp"

#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

/// Weight `i` as an offset from the first position; from a file, so maybe of any bits.
std::uint32_t position_at(std::span<const std::byte> weights, std::size_t i) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, weights.data() + i * sizeof(bits), sizeof(bits));
  return bits - k_first_position;
}

}  // namespace

Problem with_positions(const Problem& problem, const Cancellation& cancel) {
  const std::int64_t nnz = problem.a->nnz();
  CsrMatrix positions;
  positions.rows = problem.a->rows;
  positions.cols = problem.a->cols;
  positions.row_ptrs = problem.a->row_ptrs;
  positions.col_idxs = problem.a->col_idxs;
  positions.values.resize(to_size(nnz));
  for_each_piece(nnz, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      positions.values[to_size(i)] =
          std::bit_cast<float>(k_first_position + static_cast<std::uint32_t>(i));
    }
  });
  Problem result = problem;
  result.a = std::move(positions);
  return result;
}

bool are_positions(std::span<const std::byte> weights, std::int64_t nnz,
                   const Cancellation& cancel) {
  bool good = nnz <= k_most_positions && weights.size() % sizeof(float) == 0;
  for_each_piece(good ? std::ssize(weights) / 4 : 0, cancel,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     good &= position_at(weights, to_size(i)) < nnz;
                   }
                 });
  return good;
}

FloatBuffer values_at(std::span<const std::byte> positions, std::span<const float> values) {
  FloatBuffer result(positions.size() / sizeof(float));
  float* const to = result.data();
  for (std::size_t i = 0; i < result.size(); ++i) to[i] = values[position_at(positions, i)];
  return result;
}

}  // namespace spjit
