#pragma once

/// @file
/// Types of A, B and C, and what a kernel promises of its sums.

#include <cstdint>
#include <string>
#include <string_view>

#include "spjit/data_type.hpp"
#include "spjit/export.hpp"

namespace spjit {

/// The promise on each sum of products.
enum class Promise : std::uint8_t {
  /// From +0, one fp32 FMA for each entry of A, columns ascending, on values that are widened to
  /// fp32 exactly. The same bits for every tile, number of threads, n, batch and device. (The
  /// target `host-generic` rounds the product, too.)
  ordered,
  /// The arithmetic of tensor cores over groups of ascending columns. The same bits for every tile,
  /// n and batch on one generation of GPUs. No family of kernels keeps it yet.
  tensor,
  /// At most eps * S from the sum in float64, where S is the sum of all |a| |b|.
  bounded,
  /// Exact, in int32.
  integer,
};

/// How products are summed.
///
/// A sum that no epilogue changes is rounded once, to the type of C. Where there is an epilogue,
/// the sum is rounded to fp32 (sums of `ordered` are fp32). The epilogue is computed in fp32, and
/// its result is rounded to the type of C. All of these round to nearest even. An i32 C saturates,
/// and NaN becomes 0.
///
/// A C of i8 or u8 has a scale s and a zero point z of a run (Arguments::c_scale, c_zero_point; 1
/// and 0 by default). Its sums are rounded to fp32 in any case. With y what the epilogue makes of
/// them
///
///   C = saturate(round(y / s) + z)
///
/// which is ONNX's QuantizeLinear: a division in fp32, and a rounding to nearest even. NaN becomes
/// the least number of the type, as in ONNX Runtime. Elements of a residual stand for
/// s * (element - z), rounded to fp32: ONNX's DequantizeLinear.
struct Accumulate {
  Promise promise = Promise::ordered;
  double eps = 0;  ///< of `bounded`: above 0, below 1; of others 0

  [[nodiscard]] static constexpr Accumulate ordered() noexcept { return {}; }
  [[nodiscard]] static constexpr Accumulate tensor() noexcept { return {Promise::tensor}; }
  [[nodiscard]] static constexpr Accumulate bounded(double eps) noexcept {
    return {Promise::bounded, eps};
  }
  [[nodiscard]] static constexpr Accumulate integer() noexcept { return {Promise::integer}; }

  friend bool operator==(const Accumulate&, const Accumulate&) = default;
};

/// How the B of a run becomes the bytes q that sums of `integer` are made of. With s_w the
/// epilogue's scale of a row (1 without one)
///
///   C = fl(float(sum of a * (q - z)) * fl(s * s_w)), then bias, residual and activation
///
/// and each step is rounded to fp32: ONNX's MatMulInteger, Cast, Mul and Add. The scale s and the
/// zero point z belong to a token or to the tensor: all of B, and in a batch the B of all its
/// items. Of a convolution the tensor is the image, outside of which q is z.
enum class Quantization : std::uint8_t {
  none,  ///< sums are of B's own numbers
  /// B is of i8 or u8: q. A run brings s and z of the tensor (Arguments::b_scale, b_zero_point).
  given,
  /// B is of f32, q of u8, as ONNX's DynamicQuantizeLinear has it, bit for bit. `least` and
  /// `largest` are those of the tensor's numbers and 0. s = (largest - least) / 255, or 1 where
  /// they are equal; z = round(-least / s), q = round(b / s) + z, both to nearest even and within 0
  /// to 255. Where an s underflows to 0, z is 255 and 0 / s is below all. If a number of B is NaN
  /// or infinite, all of C is NaN.
  tensor,
  /// B is of f32, q of i8, z = 0. s = max |b| / 127 of the token's numbers, or 1 where that is 0.
  /// q = round(b / s), to nearest even and within -127 to 127. If a number of a token is NaN or
  /// infinite, the token's C is NaN. Not of a convolution.
  token,
};

/// "none", "given", "tensor", "token"; throws InvalidArgument for anything else.
[[nodiscard]] SPJIT_EXPORT Quantization parse_quantization(std::string_view name);
/// "?" for a value that is no Quantization.
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(Quantization quantization);

/// The arithmetic of a Problem. B may have any type but i4, C too: two elements of i4 share a byte,
/// and rows begin anywhere. Scale and bias of an epilogue are f32, a residual is of C's type.
///
/// - `ordered`: A of any type but i32, B of f32, bf16 or f16. Sums of an integer A are those of its
///   integers; a scale of the epilogue makes weights of them.
/// - `tensor`: A and B both of bf16, or both of f16.
/// - `bounded`: any.
/// - `integer`: A and B of integers. A row of A whose sum may leave int32 is refused.
///
/// Quantization asks for `integer`; with `tensor` and `token` B is of f32.
struct Numerics {
  DataType a = DataType::f32;
  DataType b = DataType::f32;
  DataType c = DataType::f32;
  Accumulate accumulate = {};
  Quantization quantization = Quantization::none;

  [[nodiscard]] bool is_default() const noexcept { return *this == Numerics{}; }
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

/// "ordered", "tensor", "integer", "bounded:0.001". Throws InvalidArgument for anything else.
[[nodiscard]] SPJIT_EXPORT Accumulate parse_accumulate(std::string_view text);
[[nodiscard]] SPJIT_EXPORT std::string to_string(const Accumulate& accumulate);
/// "ordered"; "?" for a value that is no Promise.
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(Promise promise);

/// "bf16,bf16,f32": the types of A, B and C, with `ordered`. Throws InvalidArgument.
[[nodiscard]] SPJIT_EXPORT Numerics parse_types(std::string_view text);
/// "bf16,bf16,f32 ordered"; "i8,f32,f32 integer quantize:tensor"
[[nodiscard]] SPJIT_EXPORT std::string to_string(const Numerics& numerics);

/// Throws InvalidArgument for an eps that is none and for types that the promise or the
/// quantization does not have.
SPJIT_EXPORT void validate(const Numerics& numerics);

}  // namespace spjit
