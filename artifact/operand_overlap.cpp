#include "artifact/operand_overlap.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace spjit {
namespace {

/// Of every `period` bytes no others are touched than `width` from `first` on.
struct Runs {
  std::int64_t period;
  std::int64_t first;
  std::int64_t width;
};

/// How rows of a batch can be seen: all alike, or those of its products side by side.
std::array<Runs, 2> runs_of(const TouchedBytes& touched) {
  const std::int64_t period = std::gcd(touched.ld, touched.distance);
  const std::int64_t first = std::min<std::int64_t>(touched.last, 0);
  return {
      {{period, 0, touched.width}, {touched.ld, first, std::abs(touched.last) + touched.width}}};
}

bool lie_apart(const TouchedBytes& left, const Runs& left_runs, const TouchedBytes& right,
               const Runs& right_runs) {
  const std::int64_t common = std::gcd(left_runs.period, right_runs.period);
  if (left_runs.width > common || right_runs.width > common - left_runs.width) return false;
  const auto period = static_cast<std::uintptr_t>(common);
  const std::uintptr_t left_at = left.at(left_runs.first) % period;
  const std::uintptr_t right_at = right.at(right_runs.first) % period;
  const std::uintptr_t behind = (right_at + period - left_at) % period;
  return behind >= static_cast<std::uintptr_t>(left_runs.width) &&
         behind + static_cast<std::uintptr_t>(right_runs.width) <= period;
}

}  // namespace

bool overlap(const TouchedBytes& left, const TouchedBytes& right) {
  if (left.begin == left.end || right.begin == right.end) return false;
  if (left.at(left.end) <= right.at(right.begin) || right.at(right.end) <= left.at(left.begin)) {
    return false;
  }
  if (left.ld == 0 || right.ld == 0) return true;
  for (const Runs& of_left : runs_of(left)) {
    for (const Runs& of_right : runs_of(right)) {
      if (lie_apart(left, of_left, right, of_right)) return false;
    }
  }
  return true;
}

}  // namespace spjit
