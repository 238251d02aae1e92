#pragma once

/// @file
/// Names that may stand in emitted C and C++.

#include <string_view>

namespace spjit {

/// Whether it is a keyword of C++20 or an alternative operator, or `main`: no function can be
/// called that.
[[nodiscard]] bool is_reserved_word(std::string_view text) noexcept;

/// Whether an emitted header can define a function of that name. It has letters of ASCII, digits
/// and '_', and begins with no digit. It is not
/// - a reserved word
/// - reserved for the implementation: `__` anywhere, or `_` and a capital first
/// - taken by the header's own includes: `std`, `size_t`, `exit`, `NULL`, `spjit` and others
[[nodiscard]] bool is_function_name(std::string_view text) noexcept;

}  // namespace spjit
