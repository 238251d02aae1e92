// The program record of a host kernel: the input is the record; code and weights are zeros. Kernels
// that read A have no code.

#include <array>

#include "tests/fuzz/host_program_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_text_bytes = 1024;
  constexpr std::size_t k_weight_bytes = 56;  // seven weights, or as many entries of a CSR kernel
  alignas(64) static constexpr std::array<std::byte, k_text_bytes> k_zeros = {};
  for (const std::size_t text_bytes : {k_text_bytes, std::size_t{0}}) {
    spjit::fuzz::check_program({std::span(k_zeros).first(text_bytes),
                                std::span(k_zeros).first<k_weight_bytes>(),
                                spjit::fuzz::as_bytes(data, size)});
  }
  return 0;
}
