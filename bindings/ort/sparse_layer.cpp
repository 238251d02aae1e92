#include "bindings/ort/sparse_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace spjit::ort {
namespace {

enum InputIndex : std::size_t {
  k_x = 0,
  k_bias = 1,
  k_residual = 2,
  k_scale = 3,
  k_x_scale = 4,
  k_x_zero_point = 5,
  k_y_scale = 6,
  k_y_zero_point = 7
};

const char* name_of(InputIndex index) {
  switch (index) {
    case k_x:
      return "X";
    case k_bias:
      return "the bias";
    case k_residual:
      return "the residual";
    case k_scale:
      return "the scale";
    case k_x_scale:
      return "the scale of X";
    case k_x_zero_point:
      return "the zero point of X";
    case k_y_scale:
      return "the scale of Y";
    case k_y_zero_point:
      return "the zero point of Y";
  }
  return "";
}

/// An operand besides X, of the expected shape; null if the kernel has none.
const float* operand(const Api& api, const KernelContext* context, InputIndex index,
                     const Shape& expected, bool has) {
  if (!has) return nullptr;
  const auto given = optional_input(api, context, index, name_of(index), expected);
  if (!given) throw InvalidArgument(fmt::format("{} is missing", name_of(index)));
  return given->floats();
}

/// An operand [rows] that is the same in every run: asked for once, as that takes as long as a
/// small kernel. Null where it is none.
const float* constant_operand(const Api& api, const NodeInfo* info, InputIndex index,
                              std::int64_t rows, bool has) {
  int is_constant = 0;
  const Value* value = nullptr;
  if (has) api.call<GetConstantInput>(info, std::size_t{index}, &is_constant, &value);
  if (is_constant == 0 || value == nullptr) return nullptr;
  const Tensor tensor = tensor_of(api, value);
  check_shape(tensor, name_of(index), {rows});
  return tensor.floats();
}

const char* name_of(int element) {
  return element == k_uint8_element ? "uint8" : element == k_int8_element ? "int8" : "float";
}

/// An input of one element of that type; null where the node has none.
const void* one_element(const Api& api, const KernelContext* context, InputIndex index,
                        int element) {
  const auto* const value = api.get<const Value*, GetInput>(context, std::size_t{index});
  if (value == nullptr) return nullptr;
  const Tensor tensor = tensor_of(api, value);
  const char* const name = name_of(index);
  if (count(tensor.shape) != 1) {
    throw InvalidArgument(fmt::format("{} has the shape [{}]; expected one element", name,
                                      fmt::join(tensor.shape, ", ")));
  }
  if (tensor.element != element) {
    throw InvalidArgument(fmt::format("{} is of the type {}; expected {}", name,
                                      name_of(tensor.element), name_of(element)));
  }
  return tensor.data;
}

/// The shape with channels second, where `has_tokens` says that they are last.
Shape channels_second(Shape shape, bool has_tokens) {
  if (has_tokens && shape.size() > 2) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

std::string expected_images(const LayerInfo& layer, std::int64_t channels, const char* pixels) {
  return layer.images.x_tokens ? fmt::format("[batch, {}, {}]", pixels, channels)
                               : fmt::format("[batch, {}, {}]", channels, pixels);
}

[[noreturn]] void throw_shape(const Shape& x, const std::string& expected) {
  throw InvalidArgument(
      fmt::format("X has the shape [{}]; expected {}", fmt::join(x, ", "), expected));
}

LayerConvolution convolution_of(const nlohmann::json& given) {
  return {.channels = given.at("channels"),
          .kernel = given.at("kernel"),
          .stride = given.at("stride"),
          .dilation = given.at("dilation"),
          .pad = given.at("pad")};
}

/// Of C.
const char* type_of_y(LayerKind kind) {
  switch (kind) {
    case LayerKind::floats:
    case LayerKind::bytes:
      break;
    case LayerKind::sums:
      return "i32";
    case LayerKind::uint8:
      return "u8";
    case LayerKind::int8:
      return "i8";
  }
  return "f32";
}

/// The type of X in ONNX; none where the kernel is of another kind.
std::optional<int> x_element_of(const nlohmann::json& numerics, LayerKind kind) {
  const std::string b = numerics.at("b");
  const std::string quantize = numerics.value("quantize", "none");
  const bool is_of_sums = kind == LayerKind::sums;
  if (numerics.at("c") != type_of_y(kind)) return {};
  if (kind == LayerKind::floats) {
    return b == "f32" ? std::optional(k_float_element) : std::nullopt;
  }
  if (quantize != (is_of_sums ? "none" : "given")) return {};
  if (b == "u8") return k_uint8_element;
  return b == "i8" ? std::optional(k_int8_element) : std::nullopt;
}

const char* expected_types(LayerKind kind) {
  switch (kind) {
    case LayerKind::floats:
      return "X and Y of f32";
    case LayerKind::bytes:
      return "X of bytes whose scale is given and Y of f32";
    case LayerKind::sums:
      return "X of bytes and Y of i32";
    case LayerKind::uint8:
      return "X of bytes whose scale is given and Y of u8";
    case LayerKind::int8:
      return "X of bytes whose scale is given and Y of i8";
  }
  return "";
}

}  // namespace

LayerInfo layer_info(const char* json, LayerKind kind, const ImageOrder& images) {
  const auto info = nlohmann::json::parse(json);
  const std::string layout = info.at("b_layout");
  const auto& epilogue = info.at("epilogue");
  const auto element = x_element_of(info.at("numerics"), kind);
  if (info.at("c_layout") != layout || layout == "panels" || info.at("runtime_values") ||
      !info.at("cuda").is_null() || !element) {
    throw Error(
        fmt::format("the kernel {} is no layer of ONNX Runtime; expected one for this CPU "
                    "with {} in one layout, without run-time values",
                    info.at("key").get<std::string>(), expected_types(kind)));
  }
  LayerInfo layer{.rows = info.at("rows"),
                  .cols = info.at("cols"),
                  .tokens = layout == "tokens",
                  .has_bias = epilogue.at("bias"),
                  .has_residual = epilogue.at("residual"),
                  .has_scale = epilogue.at("scale"),
                  .kind = kind,
                  .x_element = *element,
                  .images = images};
  if (!info.at("convolution").is_null()) {
    layer.convolution = convolution_of(info.at("convolution"));
  }
  const bool has_images = !layer.tokens && kind != LayerKind::floats;
  if ((images.x_tokens || images.y_tokens) && !has_images) {
    throw Error(
        fmt::format("x_tokens or y_tokens is set for the kernel {}, which has no images of bytes",
                    info.at("key").get<std::string>()));
  }
  return layer;
}

Shape output_shape(const LayerInfo& layer, const Shape& given) {
  const Shape x = channels_second(given, layer.images.x_tokens);
  Shape y = x;
  if (layer.convolution) {
    const LayerConvolution& of = *layer.convolution;
    if (x.size() != 4 || x[1] != of.channels) {
      throw_shape(given, expected_images(layer, of.channels, "height, width"));
    }
    y[1] = layer.rows;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t covered = of.dilation[i] * (of.kernel[i] - 1) + 1;
      const std::int64_t padded = x[2 + i] + of.pad[i] + of.pad[2 + i];
      if (padded < covered) {
        throw_shape(given,
                    fmt::format("images into which {} x {} taps fit", of.kernel[0], of.kernel[1]));
      }
      y[2 + i] = (padded - covered) / of.stride[i] + 1;
    }
  } else if (layer.tokens) {
    if (x.empty() || x.back() != layer.cols) throw_shape(x, fmt::format("[..., {}]", layer.cols));
    y.back() = layer.rows;
  } else {
    if (x.size() < 2 || x[1] != layer.cols) {
      throw_shape(given, expected_images(layer, layer.cols, "..."));
    }
    y[1] = layer.rows;
  }
  if (layer.images.y_tokens && y.size() > 2) std::rotate(y.begin() + 1, y.begin() + 2, y.end());
  return y;
}

spjit_arguments sizes_of(const LayerInfo& layer, const Shape& given, const Shape& y) {
  const Shape x = channels_second(given, layer.images.x_tokens);
  spjit_arguments sizes{};
  sizes.struct_size = sizeof sizes;
  if (!layer.convolution && layer.tokens) {
    sizes.n = count(x.begin(), x.end() - 1);
    return sizes;
  }
  sizes.batch = x[0];
  sizes.b_distance = count(x.begin() + 1, x.end());
  sizes.c_distance = count(y.begin() + 1, y.end());
  sizes.residual_distance = sizes.c_distance;
  if (layer.convolution) {
    sizes.height = x[2];
    sizes.width = x[3];
  } else {
    sizes.n = count(x.begin() + 2, x.end());
    // All of a run-time n have such rows; the default is that of the typical n.
    sizes.ldb = layer.images.x_tokens ? layer.cols : sizes.n;
    sizes.ldc = layer.images.y_tokens ? layer.rows : sizes.n;
  }
  sizes.b_layout = layer.images.x_tokens ? SPJIT_LAYOUT_TOKENS : SPJIT_LAYOUT_DEFAULT;
  sizes.c_layout = layer.images.y_tokens ? SPJIT_LAYOUT_TOKENS : SPJIT_LAYOUT_DEFAULT;
  return sizes;
}

SparseLayer::SparseLayer(Api api, std::string where, SharedBundle bundle,
                         const KernelSource& source, const LayerNode& node)
    : api_(api),
      where_(std::move(where)),
      bundle_(std::move(bundle)),
      kernel_(load_kernel(bundle_.get(), source)),
      layer_(layer_info(info_of(kernel_.get()), node.kind, node.images)),
      bias_(constant_operand(api_, node.info, k_bias, layer_.rows, layer_.has_bias)),
      scale_(constant_operand(api_, node.info, k_scale, layer_.rows, layer_.has_scale)) {}

void SparseLayer::set_scales(const KernelContext* context, spjit_arguments& arguments) const {
  static constexpr float k_one = 1;
  const auto zero_point = [&](InputIndex index, int element) -> std::int32_t {
    const void* const zero = one_element(api_, context, index, element);
    if (zero == nullptr) return 0;
    return element == k_int8_element ? std::int32_t{*static_cast<const std::int8_t*>(zero)}
                                     : std::int32_t{*static_cast<const std::uint8_t*>(zero)};
  };
  const auto scale_or = [&](InputIndex index, const float* none) {
    const void* const scale = one_element(api_, context, index, k_float_element);
    return scale == nullptr ? none : static_cast<const float*>(scale);
  };
  arguments.b_scale = scale_or(k_x_scale, &k_one);
  arguments.b_zero_point = zero_point(k_x_zero_point, layer_.x_element);
  if (layer_.kind == LayerKind::bytes) return;
  arguments.c_scale = scale_or(k_y_scale, nullptr);
  arguments.c_zero_point =
      zero_point(k_y_zero_point, layer_.kind == LayerKind::int8 ? k_int8_element : k_uint8_element);
}

void SparseLayer::run(KernelContext* context) const {
  const Tensor x = tensor_of(
      api_, api_.get<const Value*, GetInput>(static_cast<const KernelContext*>(context), k_x));
  if (x.element != layer_.x_element) {
    throw InvalidArgument(fmt::format("X is of the type {}; expected {}", name_of(x.element),
                                      name_of(layer_.x_element)));
  }
  const Shape shape = output_shape(layer_, x.shape);
  auto* const output =
      api_.get<Value*, GetOutput>(context, std::size_t{0}, shape.data(), shape.size());
  const float* const bias =
      bias_ != nullptr ? bias_ : operand(api_, context, k_bias, {layer_.rows}, layer_.has_bias);
  const float* const residual = operand(api_, context, k_residual, shape, layer_.has_residual);
  const float* const scale =
      scale_ != nullptr ? scale_ : operand(api_, context, k_scale, {layer_.rows}, layer_.has_scale);
  if (count(shape) == 0) return;

  spjit_arguments arguments = sizes_of(layer_, x.shape, shape);
  arguments.b = x.data;
  arguments.c = api_.get<void*, GetTensorData>(output);
  arguments.bias = bias;
  arguments.residual = residual;
  arguments.scale = scale;
  const bool has_scales = layer_.kind != LayerKind::floats && layer_.kind != LayerKind::sums;
  if (has_scales) set_scales(context, arguments);

  run_in_session(api_, context, [&] { return spjit_kernel_run(kernel_.get(), &arguments); });
}

}  // namespace spjit::ort
