#pragma once

/// @file
/// What kernels/host/operands/byte_quotients.inc divides with.

namespace spjit {

/// A product of a float and a reciprocal of which two are rounded is off by less than 2^-22 of
/// itself, the quotient by 2^-24: of quotients up to 256 by 2^-14 and 2^-16.
inline constexpr float k_surely_nearest = 0.5F - 0x1p-13F;

/// From a scale of 2^126 on a reciprocal is a denormal number, off by 2^-22 of itself, and
/// quotients are below
/// 4. If it is NaN or infinite, so is each product, which then is near no integer.
inline float reciprocal_of(float scale) { return 1 / scale; }

}  // namespace spjit
