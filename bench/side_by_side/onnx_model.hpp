#pragma once

/// @file
/// Models of one node as bytes of the ONNX format, for ONNX Runtime.

#include <cstdint>
#include <string>

namespace spjit::side_by_side {

/// A `[m x k]`, row-major with its zeros, for activations of `n` rows.
struct LinearLayer {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  const float* a = nullptr;
};

/// Of the model's tensors.
inline constexpr const char* k_onnx_input = "X";
inline constexpr const char* k_onnx_output = "Y";

/// Y `[n x m]` = X `[n x k]` * W `[k x m]`: the node MatMul, W = A transposed as an initializer.
/// Throws NotSupported where W does not fit the format, 2^31 - 1 bytes in all.
[[nodiscard]] std::string onnx_matmul_model(const LinearLayer& layer);

}  // namespace spjit::side_by_side
