#pragma once

/// @file
/// Numbers as text.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace spjit {

/// The number that is all of the text, as std::from_chars() reads it: plain and decimal.
template <class Number>
[[nodiscard]] std::optional<Number> read_number(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return number;
}

}  // namespace spjit
