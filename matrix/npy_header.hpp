#pragma once

/// @file
/// The header of a `.npy` array, versions 1 to 3, as in NumPy's documentation of
/// `numpy.lib.format`: magic, version, length, then a Python dict literal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

using Bytes = std::span<const std::byte>;

/// The `descr` of an array, taken apart: "<f4" is {'f', 4, false} on a little-endian machine.
struct NpyType {
  char kind = 'f';              ///< b, i, u, f, S or U (others are refused)
  std::int64_t item_bytes = 4;  ///< of an element; 0 is legal for S and U
  bool swapped = false;         ///< stored in the other byte order than this machine's
};

struct NpyHeader {
  NpyType type;
  std::string descr;  ///< as the file has it, for messages
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;       ///< elements: the product of `shape`
  std::size_t data_offset = 0;  ///< of the first element, from the start of `bytes`
};

/// The header of an array of `array_bytes` in all, of which `head` has the first, the header among
/// them. Throws IoError, beginning with `name`, for anything but one array whose data fills the
/// rest exactly.
[[nodiscard]] NpyHeader parse_npy_header(Bytes head, std::size_t array_bytes,
                                         std::string_view name);

}  // namespace spjit
