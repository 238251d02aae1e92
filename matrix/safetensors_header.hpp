#pragma once

/// @file
/// The header of a `.safetensors` file (https://github.com/huggingface/safetensors):
///
///     file     = length header data
///     length   = 8 bytes, little-endian: of the header, at most 100 million
///     header   = JSON: {name: {"dtype": text, "shape": [sizes], "data_offsets": [begin, end]},
///     ...,
///                "__metadata__": {text: text, ...}}, blanks after it
///     data     = the elements of all tensors, row-major, little-endian, without gap or overlap

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// Bytes in front of the header.
inline constexpr std::size_t k_safetensors_length_bytes = 8;

struct Tensor {
  std::string name;
  std::string dtype;  ///< as the file has it: "F32"
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;       ///< elements: the product of `shape`
  std::int64_t item_bytes = 0;  ///< of an element; 0: a dtype that is not known
  std::int64_t begin = 0;       ///< of its first byte in the file
  std::int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<Tensor> tensors;  ///< ascending by name, numbers in names by their size
  std::map<std::string, std::string> metadata;
};

/// Bytes of the header, from the first eight of a file of `file_bytes`. Throws IoError, beginning
/// with `name`, for a length that cannot be.
[[nodiscard]] std::int64_t safetensors_header_bytes(std::string_view length,
                                                    std::int64_t file_bytes, std::string_view name);

/// `text`: the header of a file of `file_bytes`. Memory: at most 256 bytes for each byte of it.
/// Throws IoError, beginning with `name`, unless the tensors fill the rest of the file exactly.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::int64_t file_bytes,
                                                         std::string_view name);

/// "layer.2.x" before "layer.10.x".
[[nodiscard]] bool is_before_by_number(std::string_view a, std::string_view b);

}  // namespace spjit
