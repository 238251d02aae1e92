#include "bench/side_by_side/onnx_model.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

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
enum NodeField : unsigned { k_node_input = 1, k_node_output = 2, k_node_op_type = 4 };
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
constexpr std::uint64_t k_ir_version_8 = 8;
constexpr std::uint64_t k_opset_13 = 13;

constexpr const char* k_weights = "W";
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

std::string described(const char* name, std::int64_t rows, std::int64_t cols) {
  Message shape;
  for (const std::int64_t size : {rows, cols}) {
    shape.bytes(k_dim, Message().integer(k_dim_value, static_cast<std::uint64_t>(size)).text());
  }
  const Message tensor = Message().integer(k_element_type, k_float).bytes(k_shape, shape.text());
  return Message()
      .bytes(k_value_name, name)
      .bytes(k_value_type, Message().bytes(k_tensor_type, tensor.text()).text())
      .text();
}

/// A transposed.
std::string weights_of(const LinearLayer& layer) {
  std::vector<float> w(static_cast<std::size_t>(layer.m * layer.k));
  for (std::int64_t row = 0; row < layer.m; ++row) {
    for (std::int64_t col = 0; col < layer.k; ++col) {
      w[static_cast<std::size_t>(col * layer.m + row)] = layer.a[row * layer.k + col];
    }
  }
  return Message()
      .integer(k_tensor_dims, static_cast<std::uint64_t>(layer.k))
      .integer(k_tensor_dims, static_cast<std::uint64_t>(layer.m))
      .integer(k_tensor_data_type, k_float)
      .bytes(k_tensor_name, k_weights)
      // The format is little-endian, as x86 is.
      .bytes(k_tensor_raw_data, {reinterpret_cast<const char*>(w.data()), w.size() * sizeof(float)})
      .text();
}

}  // namespace

std::string onnx_matmul_model(const LinearLayer& layer) {
  const double bytes = 4.0 * static_cast<double>(layer.m) * static_cast<double>(layer.k);
  if (bytes > k_most_bytes) {
    throw NotSupported(
        fmt::format("weights of {:.1f} GB: the ONNX format takes 2 GB at most", bytes / 1e9));
  }
  const Message node = Message()
                           .bytes(k_node_input, k_onnx_input)
                           .bytes(k_node_input, k_weights)
                           .bytes(k_node_output, k_onnx_output)
                           .bytes(k_node_op_type, "MatMul");
  const Message graph = Message()
                            .bytes(k_graph_node, node.text())
                            .bytes(k_graph_name, "layer")
                            .bytes(k_graph_initializer, weights_of(layer))
                            .bytes(k_graph_input, described(k_onnx_input, layer.n, layer.k))
                            .bytes(k_graph_output, described(k_onnx_output, layer.n, layer.m));
  return Message()
      .integer(k_ir_version, k_ir_version_8)
      .bytes(k_graph, graph.text())
      .bytes(k_opset_import, Message().integer(k_opset_version, k_opset_13).text())
      .text();
}

}  // namespace spjit::side_by_side
