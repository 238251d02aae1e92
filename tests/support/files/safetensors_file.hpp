#pragma once

/// @file
/// Small `.safetensors` files.

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit::test {

/// A tensor as a file has it; `shape` is JSON, "[2, 3]".
struct TensorBytes {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string bytes;
};

template <class Elements>
[[nodiscard]] TensorBytes tensor(const std::string& name, const std::string& dtype,
                                 const std::string& shape, const Elements& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  return {name, dtype, shape, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

[[nodiscard]] inline TensorBytes float_tensor(const std::string& name, const std::string& shape,
                                              const std::vector<float>& values) {
  return tensor(name, "F32", shape, values);
}

/// A file of a header and what follows it.
[[nodiscard]] inline std::string safetensors_text(std::string_view header,
                                                  std::string_view data = {}) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header).append(data);
}

/// `metadata`: a member of the header, or nothing.
[[nodiscard]] inline std::string safetensors(std::initializer_list<TensorBytes> tensors,
                                             std::string_view metadata = {}) {
  std::string header(metadata);
  std::string data;
  for (const TensorBytes& one : tensors) {
    header += fmt::format(R"({}"{}": {{"dtype": "{}", "shape": {}, "data_offsets": [{}, {}]}})",
                          header.empty() ? "" : ", ", one.name, one.dtype, one.shape, data.size(),
                          data.size() + one.bytes.size());
    data += one.bytes;
  }
  return safetensors_text("{" + header + "}", data);
}

}  // namespace spjit::test
