#pragma once

/// @file
/// The decoders of single operations, by families. Each reads what lies beyond the operation's
/// number, the guard and the control bits.

#include <span>

#include "sass/reader.hpp"

namespace spjit::sass {

using Decode = void (*)(Reader&);

/// An operation by its lowest nine bits, with the forms (bits 9 to 11) that it has.
struct Decoder {
  std::uint16_t operation;
  std::uint8_t forms;  ///< bit i: form i is one
  Decode decode;
  std::uint8_t first_arch = 75;
  std::uint8_t last_arch = 90;
};

/// `forms_of({1, 4})`: operands in registers, or the second one an immediate.
[[nodiscard]] constexpr std::uint8_t forms_of(std::initializer_list<unsigned> forms) {
  unsigned bits = 0;
  for (const unsigned form : forms) bits |= 1U << form;
  return static_cast<std::uint8_t>(bits);
}

[[nodiscard]] std::span<const Decoder> float_decoders() noexcept;
[[nodiscard]] std::span<const Decoder> integer_decoders() noexcept;
[[nodiscard]] std::span<const Decoder> convert_decoders() noexcept;
[[nodiscard]] std::span<const Decoder> move_decoders() noexcept;
[[nodiscard]] std::span<const Decoder> memory_decoders() noexcept;
[[nodiscard]] std::span<const Decoder> control_decoders() noexcept;

}  // namespace spjit::sass
