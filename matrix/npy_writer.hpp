#pragma once

/// @file
/// `.npy` arrays, format version 1.0, C order.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace spjit {

/// `data` with a header before it: `descr` as in "<f4", `shape` as Python writes a tuple, "(2, 3)".
[[nodiscard]] std::vector<std::byte> make_npy(std::string_view descr, std::string_view shape,
                                              std::span<const std::byte> data);

}  // namespace spjit
