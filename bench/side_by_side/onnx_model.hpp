#pragma once

/// @file
/// Models of one node as bytes of the ONNX format, for ONNX Runtime.

#include <array>
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

/// A convolution with a bias and a ReLU, images NCHW.
struct OnnxConvolution {
  std::array<std::int64_t, 4> x = {};        ///< images, channels, height, width
  std::array<std::int64_t, 4> y = {};        ///< images, filters, height, width
  std::array<std::int64_t, 4> weights = {};  ///< filters, channels / groups, height, width
  std::array<std::int64_t, 2> stride = {};   ///< height, width; so the next
  std::array<std::int64_t, 2> dilation = {};
  std::array<std::int64_t, 4> pad = {};  ///< top, left, bottom, right
  std::int64_t groups = 1;
  const float* w = nullptr;
  const float* bias = nullptr;  ///< [filters]
};

/// Y = max(0, Conv(X, W, B)): the nodes Conv and Relu, W and B initializers. Throws as
/// onnx_matmul_model().
[[nodiscard]] std::string onnx_conv_model(const OnnxConvolution& convolution);

}  // namespace spjit::side_by_side
