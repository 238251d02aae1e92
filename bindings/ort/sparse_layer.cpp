#include "bindings/ort/sparse_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace spjit::ort {
namespace {

enum InputIndex : std::size_t { k_x = 0, k_bias = 1, k_residual = 2 };

/// An operand besides X, of the expected shape; null if the kernel has none.
const float* operand(const Api& api, const KernelContext* context, InputIndex index,
                     const Shape& expected, bool has) {
  if (!has) return nullptr;
  const char* const name = index == k_bias ? "the bias" : "the residual";
  const auto given = optional_input(api, context, index, name, expected);
  if (!given) throw InvalidArgument(fmt::format("{} is missing", name));
  return given->floats();
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

bool is_of_floats(const nlohmann::json& info) {
  const auto& numerics = info.at("numerics");
  return numerics.at("b") == "f32" && numerics.at("c") == "f32";
}

}  // namespace

LayerInfo layer_info(const char* json) {
  const auto info = nlohmann::json::parse(json);
  const std::string layout = info.at("b_layout");
  const auto& epilogue = info.at("epilogue");
  if (info.at("c_layout") != layout || layout == "panels" || epilogue.at("scale") ||
      info.at("runtime_values") || !info.at("cuda").is_null() || !is_of_floats(info)) {
    throw Error(
        fmt::format("the kernel {} is no layer of ONNX Runtime; expected one for this CPU "
                    "with X and Y of f32 in one layout, without scale and run-time values",
                    info.at("key").get<std::string>()));
  }
  LayerInfo layer{.rows = info.at("rows"),
                  .cols = info.at("cols"),
                  .tokens = layout == "tokens",
                  .has_bias = epilogue.at("bias"),
                  .has_residual = epilogue.at("residual")};
  if (!info.at("convolution").is_null()) {
    layer.convolution = convolution_of(info.at("convolution"));
  }
  return layer;
}

Shape output_shape(const LayerInfo& layer, const Shape& x) {
  Shape y = x;
  if (layer.convolution) {
    const LayerConvolution& of = *layer.convolution;
    if (x.size() != 4 || x[1] != of.channels) {
      throw_shape(x, fmt::format("[batch, {}, height, width]", of.channels));
    }
    y[1] = layer.rows;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t covered = of.dilation[i] * (of.kernel[i] - 1) + 1;
      const std::int64_t padded = x[2 + i] + of.pad[i] + of.pad[2 + i];
      if (padded < covered) {
        throw_shape(x,
                    fmt::format("images into which {} x {} taps fit", of.kernel[0], of.kernel[1]));
      }
      y[2 + i] = (padded - covered) / of.stride[i] + 1;
    }
  } else if (layer.tokens) {
    if (x.empty() || x.back() != layer.cols) throw_shape(x, fmt::format("[..., {}]", layer.cols));
    y.back() = layer.rows;
  } else {
    if (x.size() < 2 || x[1] != layer.cols) {
      throw_shape(x, fmt::format("[batch, {}, ...]", layer.cols));
    }
    y[1] = layer.rows;
  }
  return y;
}

spjit_arguments sizes_of(const LayerInfo& layer, const Shape& x, const Shape& y) {
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
    sizes.ldb = sizes.n;
    sizes.ldc = sizes.n;
  }
  return sizes;
}

SparseLayer::SparseLayer(Api api, std::string where, SharedBundle bundle,
                         const KernelSource& source)
    : api_(api),
      where_(std::move(where)),
      bundle_(std::move(bundle)),
      kernel_(load_kernel(bundle_.get(), source)),
      layer_(layer_info(info_of(kernel_.get()))) {}

void SparseLayer::run(KernelContext* context) const {
  const Tensor x = tensor_of(
      api_, api_.get<const Value*, GetInput>(static_cast<const KernelContext*>(context), k_x));
  const Shape shape = output_shape(layer_, x.shape);
  auto* const output =
      api_.get<Value*, GetOutput>(context, std::size_t{0}, shape.data(), shape.size());
  const float* const bias = operand(api_, context, k_bias, {layer_.rows}, layer_.has_bias);
  const float* const residual = operand(api_, context, k_residual, shape, layer_.has_residual);
  if (count(shape) == 0) return;

  spjit_arguments arguments = sizes_of(layer_, x.shape, shape);
  arguments.b = x.floats();
  arguments.c = static_cast<float*>(api_.get<void*, GetTensorData>(output));
  arguments.bias = bias;
  arguments.residual = residual;

  run_in_session(api_, context, [&] { return spjit_kernel_run(kernel_.get(), &arguments); });
}

}  // namespace spjit::ort
