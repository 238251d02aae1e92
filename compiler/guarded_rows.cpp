#include "compiler/guarded_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

/// In front of the first row and behind the last; a cache line, so that rows stay aligned.
constexpr std::int64_t k_guard_floats = 16;
constexpr std::uint32_t k_unwritten_bits = 0x7FA5A5A5;

void fill_unwritten(float* begin, std::int64_t count, CancelPace& pace) {
  pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
    std::fill(begin + from, begin + to, std::bit_cast<float>(k_unwritten_bits));
  });
}

bool has_unwritten_only(const float* begin, std::int64_t count, CancelPace& pace) {
  bool found = false;
  pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
    found = found || !std::all_of(begin + from, begin + to, is_unwritten);
  });
  return !found;
}

/// Sparse unless all of them are used: pages that nobody touches are no memory then.
FloatBuffer buffer_of(std::int64_t rows, std::int64_t ld, const RowRanges& used) {
  const std::size_t floats = to_size(checked_add(checked_multiply(rows, ld, "floats of a check"),
                                                 2 * k_guard_floats, "floats of a check"));
  return used.count() < rows ? FloatBuffer::sparse(floats) : FloatBuffer(floats);
}

}  // namespace

bool is_unwritten(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) == k_unwritten_bits;
}

GuardedRows::GuardedRows(std::int64_t rows, std::int64_t n, std::int64_t ld, const RowRanges& used,
                         CancelPace& pace)
    : rows_(rows), n_(n), ld_(ld), floats_(buffer_of(rows, ld, used)) {
  const auto guard = [&](std::int64_t begin, std::int64_t end) {
    float* first = row(begin) - k_guard_floats;
    fill_unwritten(first, row(end) + k_guard_floats - first, pace);
  };
  // With a guard on both sides, which no other range comes near to: a thousand rows lie between.
  for (const RowRange& range : used.ranges()) guard(range.begin, range.end);
  if (used.count() == 0) guard(0, 0);
}

float* GuardedRows::row(std::int64_t row) const noexcept {
  return floats_.data() + k_guard_floats + row * ld_;
}

std::string GuardedRows::touched(CancelPace& pace) const {
  if (!has_unwritten_only(row(0) - k_guard_floats, k_guard_floats, pace)) {
    return "in front of its first row";
  }
  for (std::int64_t i = 0; i < rows_; ++i) {
    if (!has_unwritten_only(row(i) + n_, ld_ - n_, pace)) return fmt::format("behind row {}", i);
    pace.spend(1);
  }
  return has_unwritten_only(row(rows_), k_guard_floats, pace) ? "" : "behind its last row";
}

double GuardedRows::bytes(std::int64_t rows, std::int64_t ld) noexcept {
  return as_double(rows) * as_double(ld) * static_cast<double>(sizeof(float));
}

}  // namespace spjit
