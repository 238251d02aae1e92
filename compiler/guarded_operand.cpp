#include "compiler/guarded_operand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

/// In front of the first row and behind the last; of f32 a cache line, so that rows stay aligned.
constexpr std::int64_t k_guard_elements = 16;

/// Bits of a guard.
std::uint32_t guard_of(const ElementKind& kind) {
  if (info_of(kind.type).is_integer) return kind.has_other_guards ? 0x5A5A5A5A : 0xA5A5A5A5;
  if (kind.type == DataType::f32) return 0x7FA5A5A5;
  return kind.type == DataType::bf16 ? 0x7FA5 : 0x7DA5;
}

/// Calls `work` with the guards of a type as the unsigned integer that has their bits.
template <class Work>
auto with_guard(const ElementKind& kind, const Work& work) {
  const std::uint32_t guard = guard_of(kind);
  switch (bytes_of(kind.type)) {
    case 1:
      return work(static_cast<std::uint8_t>(guard));
    case 2:
      return work(static_cast<std::uint16_t>(guard));
    default:
      return work(guard);
  }
}

}  // namespace

RowRanges all_rows(std::int64_t rows) {
  RowRanges all;
  if (rows > 0) all.add(0, rows);
  return all;
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

GuardedOperand::GuardedOperand(const Placement& place, const RowRanges& used, CancelPace& pace,
                               const ElementKind& kind)
    : place_(place), kind_(kind) {
  const Lines lines = lines_of(place);
  const bool has_all = place.layout != Layout::row_major || used.count() == lines.count;
  const std::int64_t overlap = std::max<std::int64_t>(lines.elements - lines.distance, 0);
  const char* what = "elements of a check";
  const std::int64_t elements = checked_add(checked_multiply(lines.count, lines.distance, what),
                                            overlap + 2 * k_guard_elements, what);
  const std::size_t floats =
      to_size(ceil_div(bytes_of(kind.type, elements), bytes_of(DataType::f32)));
  memory_ = has_all ? FloatBuffer(floats) : FloatBuffer::sparse(floats);
  const auto guard = [&](std::int64_t begin, std::int64_t end) {
    fill_guards(begin * lines.distance,
                (end - begin) * lines.distance + overlap + 2 * k_guard_elements, pace);
  };
  // With a guard on both sides, which no other range comes near to: a thousand rows lie between.
  const RowRanges all = all_rows(lines.count);
  for (const RowRange& range : (has_all ? all : used).ranges()) guard(range.begin, range.end);
  if (lines.count == 0 || (!has_all && used.count() == 0)) guard(0, 0);
}

void* GuardedOperand::data() const noexcept {
  return reinterpret_cast<std::byte*>(memory_.data()) + bytes_of(kind_.type, k_guard_elements);
}

void GuardedOperand::fill_guards(std::int64_t begin, std::int64_t count, CancelPace& pace) const {
  with_guard(kind_, [&](auto guard) {
    auto* const elements = reinterpret_cast<decltype(guard)*>(memory_.data()) + begin;
    pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
      std::fill(elements + from, elements + to, guard);
    });
  });
}

bool GuardedOperand::has_guards_only(std::int64_t begin, std::int64_t count,
                                     CancelPace& pace) const {
  return with_guard(kind_, [&](auto guard) {
    const auto* const elements = reinterpret_cast<const decltype(guard)*>(memory_.data()) + begin;
    bool found = false;
    pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
      found = found || std::any_of(elements + from, elements + to,
                                   [guard](auto element) { return element != guard; });
    });
    return !found;
  });
}

bool GuardedOperand::is_guard(std::int64_t offset) const noexcept {
  return with_guard(kind_, [&](auto guard) {
    decltype(guard) element{};
    const std::byte* const at =
        static_cast<const std::byte*>(data()) + offset * std::int64_t{sizeof(guard)};
    std::memcpy(&element, at, sizeof(element));
    return element == guard;
  });
}

Refusal GuardedOperand::touched(CancelPace& pace) const {
  const Lines lines = lines_of(place_);
  if (!has_guards_only(0, k_guard_elements, pace)) {
    return Refusal(fmt::format("in front of its first {}", lines.name));
  }
  for (std::int64_t i = 0; i < lines.count; ++i) {
    const std::int64_t end = k_guard_elements + i * lines.distance + lines.elements;
    if (!has_guards_only(end, lines.distance - lines.elements, pace)) {
      return Refusal(fmt::format("behind {} {}", lines.name, i));
    }
    pace.spend(1);
  }
  const std::int64_t end = k_guard_elements + lines.count * lines.distance;
  const bool is_whole = has_guards_only(end, k_guard_elements, pace);
  return is_whole ? Refusal::none() : Refusal(fmt::format("behind its last {}", lines.name));
}

double GuardedOperand::bytes(const Placement& place, std::int64_t used_rows,
                             DataType type) noexcept {
  const Lines lines = lines_of(place);
  const std::int64_t count = place.layout == Layout::row_major ? used_rows : lines.count;
  return as_double(count) * as_double(lines.distance) * as_double(bytes_of(type));
}

}  // namespace spjit
