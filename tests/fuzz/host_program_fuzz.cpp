// The program record of a host kernel: the input is the record; code and weights are zeros.

#include <array>

#include "tests/fuzz/host_program_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_text_bytes = 1024;
  constexpr std::size_t k_weight_bytes = 56;  // seven weights, or as many entries of a CSR kernel
  static constexpr std::array<std::byte, k_text_bytes> k_zeros = {};
  spjit::fuzz::check_program(
      {k_zeros, std::span(k_zeros).first<k_weight_bytes>(), spjit::fuzz::as_bytes(data, size)});
  return 0;
}
