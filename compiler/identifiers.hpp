#pragma once

/// @file
/// Names that may stand in emitted C and C++.

#include <string_view>

namespace spjit {

/// Whether it is a keyword of C++20 or an alternative operator, or `main`: no function can be
/// called that.
[[nodiscard]] bool is_reserved_word(std::string_view text) noexcept;

/// Letters of ASCII, digits and '_', not beginning with a digit, not reserved.
[[nodiscard]] bool is_function_name(std::string_view text) noexcept;

}  // namespace spjit
