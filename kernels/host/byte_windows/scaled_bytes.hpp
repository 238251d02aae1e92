#pragma once

/// @file
/// Steps of bytes whose groups of columns have scales: what the loops read besides.

#include <span>

#include "kernels/host/byte_windows/byte_kernel.hpp"

namespace spjit {

/// Whether entries can be packed: they have scales, and values of i4.
[[nodiscard]] bool can_pack(const CsrView& matrix);

/// Adds all but the slots, and takes the starts of `steps`. Precondition: the matrix has scales.
void add_scales(const CsrView& matrix, ByteSteps& steps, ScaledBytes& to);

/// Places and values in a byte. Precondition: can_pack().
[[nodiscard]] ByteBuffer packed_slots(const ByteSteps& steps, std::span<const float> values);

}  // namespace spjit
