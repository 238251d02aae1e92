#include "compiler/guarded_operand.hpp"

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

}  // namespace

RowRanges all_rows(std::int64_t rows) {
  RowRanges all;
  if (rows > 0) all.add(0, rows);
  return all;
}

bool is_unwritten(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) == k_unwritten_bits;
}

GuardedOperand::Lines GuardedOperand::lines_of(const Placement& place) noexcept {
  const PanelLayout& panels = place.panels;
  switch (place.layout) {
    case Layout::tokens_major:
      return {"token", panels.n, panels.rows, place.ld};
    case Layout::panel_major:
      return {"panel", panels.panels(), panels.rows * panels.width, panels.stride()};
    case Layout::row_major:
      break;
  }
  return {"row", panels.rows, panels.n, place.ld};
}

GuardedOperand::GuardedOperand(const Placement& place, const RowRanges& used, CancelPace& pace)
    : place_(place) {
  const Lines lines = lines_of(place);
  const bool has_all = place.layout != Layout::row_major || used.count() == lines.count;
  const std::int64_t overlap = std::max<std::int64_t>(lines.floats - lines.distance, 0);
  const char* what = "floats of a check";
  const std::size_t floats = to_size(checked_add(
      checked_multiply(lines.count, lines.distance, what), overlap + 2 * k_guard_floats, what));
  floats_ = has_all ? FloatBuffer(floats) : FloatBuffer::sparse(floats);
  const auto guard = [&](std::int64_t begin, std::int64_t end) {
    fill_unwritten(floats_.data() + begin * lines.distance,
                   (end - begin) * lines.distance + overlap + 2 * k_guard_floats, pace);
  };
  // With a guard on both sides, which no other range comes near to: a thousand rows lie between.
  const RowRanges all = all_rows(lines.count);
  for (const RowRange& range : (has_all ? all : used).ranges()) guard(range.begin, range.end);
  if (lines.count == 0 || (!has_all && used.count() == 0)) guard(0, 0);
}

float* GuardedOperand::data() const noexcept { return floats_.data() + k_guard_floats; }

Refusal GuardedOperand::touched(CancelPace& pace) const {
  const Lines lines = lines_of(place_);
  if (!has_unwritten_only(floats_.data(), k_guard_floats, pace)) {
    return Refusal(fmt::format("in front of its first {}", lines.name));
  }
  for (std::int64_t i = 0; i < lines.count; ++i) {
    const float* end = data() + i * lines.distance + lines.floats;
    if (!has_unwritten_only(end, lines.distance - lines.floats, pace)) {
      return Refusal(fmt::format("behind {} {}", lines.name, i));
    }
    pace.spend(1);
  }
  const bool is_whole =
      has_unwritten_only(data() + lines.count * lines.distance, k_guard_floats, pace);
  return is_whole ? Refusal::none() : Refusal(fmt::format("behind its last {}", lines.name));
}

double GuardedOperand::bytes(const Placement& place, std::int64_t used_rows) noexcept {
  const Lines lines = lines_of(place);
  const std::int64_t count = place.layout == Layout::row_major ? used_rows : lines.count;
  return as_double(count) * as_double(lines.distance) * static_cast<double>(sizeof(float));
}

}  // namespace spjit
