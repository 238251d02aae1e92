#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sass/instruction.hpp"

namespace spjit::sass {

/// Whether the decoder knows the encoding of this architecture (75 for sm_75): 75 to 90.
[[nodiscard]] bool decodes(int arch) noexcept;

/// One instruction at `offset` [bytes] of its section. Throws Error, which names the 128 bits, for
/// what the decoder does not know, down to single bits: nothing is left out or guessed.
[[nodiscard]] Instruction decode(const Encoding& encoding, std::uint32_t offset, int arch);

/// All instructions of a section. Throws Error that names `function`, the offset and the bits.
[[nodiscard]] std::vector<Instruction> decode_all(std::span<const std::byte> code, int arch,
                                                  std::string_view function);

}  // namespace spjit::sass
