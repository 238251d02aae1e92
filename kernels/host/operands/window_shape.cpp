#include "kernels/host/operands/window_shape.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"

namespace spjit {

std::int64_t WindowShape::column_floats(std::int64_t cols) const noexcept {
  return std::max(round_up(cols, align), window) + behind;
}

std::int64_t WindowShape::step_bytes() const noexcept { return lanes * 5 + 2; }

std::int64_t WindowShape::most_cols() const noexcept { return 65'536 * align; }

WindowShape window_shape(HostIsa isa, WindowSlots slots) noexcept {
  if (slots == WindowSlots::packed) return {isa == HostIsa::avx512 ? 16 : 8, 16, 1, 16};
  return isa == HostIsa::avx512 ? WindowShape{16, 32, 16} : WindowShape{8, 16, 1};
}

}  // namespace spjit
