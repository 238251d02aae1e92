#include "bench/side_by_side/onnx_model.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

// Of onnx.proto: numbers of fields and values. The format is Protocol Buffers: a field is a key
// (number << 3 | kind), then an integer, or a length and so many bytes.
enum ModelField : unsigned { k_ir_version = 1, k_graph = 7, k_opset_import = 8 };
enum OpsetField : unsigned { k_opset_version = 2 };
enum GraphField : unsigned {
  k_graph_node = 1,
  k_graph_name = 2,
  k_graph_initializer = 5,
  k_graph_input = 11,
  k_graph_output = 12,
};
enum NodeField : unsigned {
  k_node_input = 1,
  k_node_output = 2,
  k_node_op_type = 4,
  k_node_attribute = 5,
};
enum AttributeField : unsigned {
  k_attribute_name = 1,
  k_attribute_integer = 3,
  k_attribute_integers = 8,
  k_attribute_type = 20,
};
enum TensorField : unsigned {
  k_tensor_dims = 1,
  k_tensor_data_type = 2,
  k_tensor_name = 8,
  k_tensor_raw_data = 9,
};
enum ValueField : unsigned { k_value_name = 1, k_value_type = 2 };
enum TypeField : unsigned { k_tensor_type = 1 };
enum TensorTypeField : unsigned { k_element_type = 1, k_shape = 2 };
enum ShapeField : unsigned { k_dim = 1 };
enum DimField : unsigned { k_dim_value = 1 };
constexpr std::uint64_t k_float = 1;
constexpr std::uint64_t k_type_integer = 2;
constexpr std::uint64_t k_type_integers = 7;
constexpr std::uint64_t k_ir_version_8 = 8;
constexpr std::uint64_t k_opset_13 = 13;

constexpr const char* k_weights = "W";
constexpr const char* k_bias = "B";
constexpr double k_most_bytes = 2147483647.0 - 4096;

/// A message being written.
class Message {
 public:
  Message& integer(unsigned field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& bytes(unsigned field, std::string_view value) {
    constexpr unsigned k_length_delimited = 2;
    varint(field << 3 | k_length_delimited);
    varint(value.size());
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    constexpr std::uint64_t k_more = 0x80;
    for (; value >= k_more; value >>= 7) text_ += static_cast<char>(value | k_more);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

/// A tensor of floats: its name and shape.
std::string described(const char* name, std::span<const std::int64_t> sizes) {
  Message shape;
  for (const std::int64_t size : sizes) {
    shape.bytes(k_dim, Message().integer(k_dim_value, static_cast<std::uint64_t>(size)).text());
  }
  const Message tensor = Message().integer(k_element_type, k_float).bytes(k_shape, shape.text());
  return Message()
      .bytes(k_value_name, name)
      .bytes(k_value_type, Message().bytes(k_tensor_type, tensor.text()).text())
      .text();
}

/// An initializer. Throws NotSupported where it is too large.
std::string constant(const char* name, std::span<const std::int64_t> sizes, const float* values) {
  double bytes = sizeof(float);
  Message tensor;
  for (const std::int64_t size : sizes) {
    bytes *= static_cast<double>(size);
    tensor.integer(k_tensor_dims, static_cast<std::uint64_t>(size));
  }
  if (bytes > k_most_bytes) {
    throw NotSupported(
        fmt::format("weights of {:.1f} GB: the ONNX format takes 2 GB at most", bytes / 1e9));
  }
  return tensor.integer(k_tensor_data_type, k_float)
      .bytes(k_tensor_name, name)
      // The format is little-endian, as x86 is.
      .bytes(k_tensor_raw_data,
             {reinterpret_cast<const char*>(values), static_cast<std::size_t>(bytes)})
      .text();
}

std::string integers(const char* name, std::span<const std::int64_t> values) {
  Message attribute = Message().bytes(k_attribute_name, name);
  for (const std::int64_t value : values) {
    attribute.integer(k_attribute_integers, static_cast<std::uint64_t>(value));
  }
  return attribute.integer(k_attribute_type, k_type_integers).text();
}

std::string model_of(const Message& graph) {
  return Message()
      .integer(k_ir_version, k_ir_version_8)
      .bytes(k_graph, graph.text())
      .bytes(k_opset_import, Message().integer(k_opset_version, k_opset_13).text())
      .text();
}

}  // namespace

std::string onnx_matmul_model(const LinearLayer& layer) {
  const std::array weights = {layer.k, layer.m};
  std::vector<float> w;  // A transposed
  if (as_double(layer.m) * as_double(layer.k) * sizeof(float) <= k_most_bytes) {
    w.resize(to_size(layer.m * layer.k));
    for (std::int64_t row = 0; row < layer.m; ++row) {
      for (std::int64_t col = 0; col < layer.k; ++col) {
        w[to_size(col * layer.m + row)] = layer.a[row * layer.k + col];
      }
    }
  }
  const Message node = Message()
                           .bytes(k_node_input, k_onnx_input)
                           .bytes(k_node_input, k_weights)
                           .bytes(k_node_output, k_onnx_output)
                           .bytes(k_node_op_type, "MatMul");
  return model_of(
      Message()
          .bytes(k_graph_node, node.text())
          .bytes(k_graph_name, "layer")
          .bytes(k_graph_initializer, constant(k_weights, weights, w.data()))
          .bytes(k_graph_input, described(k_onnx_input, std::array{layer.n, layer.k}))
          .bytes(k_graph_output, described(k_onnx_output, std::array{layer.n, layer.m})));
}

std::string onnx_conv_model(const OnnxConvolution& convolution) {
  constexpr const char* k_sums = "S";
  const std::array kernel = {convolution.weights[2], convolution.weights[3]};
  const Message group =
      Message()
          .bytes(k_attribute_name, "group")
          .integer(k_attribute_integer, static_cast<std::uint64_t>(convolution.groups))
          .integer(k_attribute_type, k_type_integer);
  const Message conv = Message()
                           .bytes(k_node_input, k_onnx_input)
                           .bytes(k_node_input, k_weights)
                           .bytes(k_node_input, k_bias)
                           .bytes(k_node_output, k_sums)
                           .bytes(k_node_op_type, "Conv")
                           .bytes(k_node_attribute, integers("kernel_shape", kernel))
                           .bytes(k_node_attribute, integers("strides", convolution.stride))
                           .bytes(k_node_attribute, integers("dilations", convolution.dilation))
                           .bytes(k_node_attribute, integers("pads", convolution.pad))
                           .bytes(k_node_attribute, group.text());
  const Message relu = Message()
                           .bytes(k_node_input, k_sums)
                           .bytes(k_node_output, k_onnx_output)
                           .bytes(k_node_op_type, "Relu");
  const std::array filters = {convolution.weights[0]};
  return model_of(
      Message()
          .bytes(k_graph_node, conv.text())
          .bytes(k_graph_node, relu.text())
          .bytes(k_graph_name, "layer")
          .bytes(k_graph_initializer, constant(k_weights, convolution.weights, convolution.w))
          .bytes(k_graph_initializer, constant(k_bias, filters, convolution.bias))
          .bytes(k_graph_input, described(k_onnx_input, convolution.x))
          .bytes(k_graph_output, described(k_onnx_output, convolution.y)));
}

}  // namespace spjit::side_by_side
