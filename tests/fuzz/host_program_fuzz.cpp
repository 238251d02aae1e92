// The program record of a host kernel: the input is the record; code is zeros. Kernels that read A
// have no code.

#include <array>
#include <cstdint>

#include "kernels/host/unrolled/weight_positions.hpp"
#include "tests/fuzz/host_program_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_text_bytes = 1024;
  alignas(64) static constexpr std::array<std::byte, k_text_bytes> k_zeros = {};
  // Seven entries of A: with values of 32, 16, 8 and 4 bits, with four scales of groups behind
  // those of 32, 8 and 4, without, and where they are in the values of a run.
  alignas(64) static constexpr std::array<std::uint32_t, 18> k_entries = {};
  alignas(64) static constexpr std::array k_positions = {
      spjit::k_first_position,     spjit::k_first_position + 6, spjit::k_first_position + 5,
      spjit::k_first_position + 4, spjit::k_first_position + 3, spjit::k_first_position + 2,
      spjit::k_first_position + 1};
  for (const std::size_t text_bytes : {k_text_bytes, std::size_t{0}}) {
    for (const std::span<const std::uint32_t> weights :
         {std::span<const std::uint32_t>(k_entries), std::span(k_entries).first(14),
          std::span(k_entries).first(13), std::span(k_entries).first(12),
          std::span(k_entries).first(11), std::span(k_entries).first(9),
          std::span(k_entries).first(8), std::span(k_entries).first(7),
          std::span<const std::uint32_t>(k_positions)}) {
      spjit::fuzz::check_program({std::span(k_zeros).first(text_bytes), std::as_bytes(weights),
                                  spjit::fuzz::as_bytes(data, size)});
    }
  }
  return 0;
}
