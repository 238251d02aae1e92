#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulated_driver/program.hpp"
#include "emulated_driver/ptx_lexer.hpp"

namespace spjit::emulated {

/// `.align 8 .b8 name[4] = {1, 2}` as it is declared.
struct Declaration {
  Type type = Type::b8;
  std::string name;
  std::uint32_t align_bytes = 1;
  std::uint64_t size_bytes = 0;       ///< 0 for `name[]`
  std::vector<std::uint8_t> initial;  ///< size_bytes, or empty if there is no initializer
};

/// Reads a declaration after its state space, up to what follows it (a `;`, `,` or `)`).
[[nodiscard]] Declaration read_declaration(Lexer& lexer);
/// Reads `.reg`'s `.f32 %f<9>, %a;` with its semicolon. Slots are not given out.
[[nodiscard]] std::vector<RegisterRange> read_registers(Lexer& lexer);

/// `offset` rounded up to a multiple of `align`.
[[nodiscard]] constexpr std::uint32_t aligned(std::uint32_t offset, std::uint32_t align) {
  return (offset + align - 1) / align * align;
}

}  // namespace spjit::emulated
