#pragma once

/// @file
/// Floats as bytes of a C that has a scale and a zero point, and such bytes as floats.

#include <cstdint>
#include <span>

#include "plan/quantization.hpp"
#include "spjit/data_type.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Floats that follow one another, as bytes of the type, which is i8 or u8 (spjit/numerics.hpp).
/// Nothing else is read or written. Precondition: this CPU has `isa`.
void quantize_floats(std::span<const float> from, const ByteScale& scale, DataType type,
                     std::uint8_t* to, HostIsa isa);

/// Writes the number that each byte of the type stands for. They follow one another.
void widen_bytes(const std::uint8_t* from, std::int64_t count, const ByteScale& scale,
                 DataType type, float* to);

}  // namespace spjit
