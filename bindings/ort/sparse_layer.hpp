#pragma once

/// @file
/// A layer of an ONNX model that a kernel computes: the operators SparseLayer, SparseIntegerLayer,
/// SparseIntegerProduct, SparseUint8Layer and SparseInt8Layer of the domain spjit.
///
/// Inputs: X, and where the kernel has them bias [rows], residual (as Y) and scale [rows], all
/// fp32. Output: Y. X of bytes has two more inputs of one element each: what a unit of it is worth,
/// and what stands for 0; without them 1 and 0. Behind those Y of bytes has the same two.
/// - A kernel of layout tokens: X [..., cols], Y [..., rows].
/// - of layout features: X [batch, cols, ...], Y [batch, rows, ...].
/// - of a convolution: X [batch, channels, height, width], Y [batch, rows, height', width'].
/// Images of bytes may have their channels last (ImageOrder).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/ort/api.hpp"
#include "bindings/ort/open_bundles.hpp"
#include "bindings/ort/session_kernel.hpp"
#include "spjit.h"

namespace spjit::ort {

/// Height and width.
using Pair = std::array<std::int64_t, 2>;

/// Which operator a kernel is of.
enum class LayerKind : std::uint8_t {
  floats,  ///< SparseLayer: X and Y of f32
  bytes,   ///< SparseIntegerLayer: X of u8 or i8, Y of f32
  sums,    ///< SparseIntegerProduct: X of u8 or i8, Y of i32: sums of X's own numbers
  uint8,   ///< SparseUint8Layer: X of u8 or i8, Y of u8
  int8,    ///< SparseInt8Layer: X of u8 or i8, Y of i8
};

/// Where nodes of images have channels: of X, and of Y. The attributes `x_tokens` and `y_tokens`.
struct ImageOrder {
  bool x_tokens = false;  ///< X [batch, height, width, channels], else [batch, channels, ...]
  bool y_tokens = false;
};

struct LayerConvolution {
  std::int64_t channels = 0;
  Pair kernel = {};
  Pair stride = {};
  Pair dilation = {};
  std::array<std::int64_t, 4> pad = {};  ///< top, left, bottom, right
};

/// Facts about a kernel that a run needs.
struct LayerInfo {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool tokens = false;  ///< X [..., cols]
  bool has_bias = false;
  bool has_residual = false;
  bool has_scale = false;
  LayerKind kind = LayerKind::floats;
  int x_element = k_float_element;  ///< its type
  std::optional<LayerConvolution> convolution = {};
  ImageOrder images = {};  ///< of a kernel of layout features
};

/// The layer in the JSON of spjit_kernel_info(). Throws Error for a kernel that is no such layer.
[[nodiscard]] LayerInfo layer_info(const char* json, LayerKind kind = LayerKind::floats,
                                   const ImageOrder& images = {});

/// Y's shape. Throws InvalidArgument for an X that the layer does not take.
[[nodiscard]] Shape output_shape(const LayerInfo& layer, const Shape& x);

/// Sizes of a run, without pointers. Shapes without an empty dimension, of output_shape().
[[nodiscard]] spjit_arguments sizes_of(const LayerInfo& layer, const Shape& x, const Shape& y);

/// The node of a graph that a layer is made for.
struct LayerNode {
  LayerKind kind;
  const NodeInfo* info;  ///< borrowed, while the layer is made
  ImageOrder images = {};
};

/// A kernel whose runs have their threads in the pool of the session that runs them. Any number of
/// threads may run one.
class SparseLayer {
 public:
  /// Throws Error with what spjit says.
  SparseLayer(Api api, std::string where, SharedBundle bundle, const KernelSource& source,
              const LayerNode& node);

  [[nodiscard]] const Api& api() const noexcept { return api_; }
  /// How messages about it begin.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// Throws Error, InvalidArgument.
  void run(KernelContext* context) const;

 private:
  /// X's scale and zero point, and Y's.
  void set_scales(const KernelContext* context, spjit_arguments& arguments) const;

  Api api_;
  std::string where_;
  SharedBundle bundle_;  ///< stays open for layers that are made after this one
  OwnedKernel kernel_;
  LayerInfo layer_;
  // [rows]; null where the kernel has none, and where runs bring another one each.
  const float* bias_;
  const float* scale_;
};

}  // namespace spjit::ort
