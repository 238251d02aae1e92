#pragma once

/// @file
/// Names that may stand in emitted C and C++.

#include <string_view>

namespace spjit {

/// Whether it is a keyword of C++20 or an alternative operator, or `main`: no function can be
/// called that.
[[nodiscard]] bool is_reserved_word(std::string_view text) noexcept;

/// Whether an emitted header can define a function of that name: letters of ASCII, digits and '_',
/// not beginning with a digit; no reserved word, no name reserved for the implementation (`__`
/// anywhere, or `_` and a capital first), and none that the header's own includes have taken, such
/// as `std`, `size_t`, `exit`, `NULL` or `spjit`.
[[nodiscard]] bool is_function_name(std::string_view text) noexcept;

}  // namespace spjit
