#include "matrix/npy_writer.hpp"

#include <fmt/format.h>

namespace spjit {

std::vector<std::byte> make_npy(std::string_view descr, std::string_view shape,
                                std::span<const std::byte> data) {
  constexpr std::size_t k_preamble = 10;   // magic, version, length
  constexpr std::size_t k_alignment = 64;  // NumPy starts the data there
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  const std::size_t unpadded = k_preamble + dict.size() + 1;
  dict.append((k_alignment - unpadded % k_alignment) % k_alignment, ' ');
  dict += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size() & 0xFFU);
  head += static_cast<char>(dict.size() >> 8U);
  head += dict;
  const auto head_bytes = std::as_bytes(std::span(head));
  std::vector<std::byte> bytes;
  bytes.reserve(head_bytes.size() + data.size());
  bytes.insert(bytes.end(), head_bytes.begin(), head_bytes.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

}  // namespace spjit
