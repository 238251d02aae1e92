#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "emulated_driver/machine.hpp"
#include "emulated_driver/memory.hpp"
#include "emulated_driver/program.hpp"
#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

inline constexpr const char* k_header = ".version 7.8\n.target sm_75\n.address_size 64\n";

/// A kernel with parameter `out` in %rd0 and the usual registers around `body`.
inline std::string kernel_of(const std::string& body) {
  return fmt::format(
      "{}.visible .entry k(.param .u64 out)\n{{\n"
      ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n"
      ".reg .f32 %f<16>; .reg .f64 %fd<8>;\n"
      "ld.param.u64 %rd0, [out];\n{}\nret;\n}}\n",
      k_header, body);
}

/// Runs kernel k of `text` on an output of `words` 32-bit words, none of them written; returns the
/// words that it wrote, and 0xdeadbeef for those that it did not.
inline std::vector<std::uint32_t> run_words(const std::string& text, const LaunchShape& shape = {},
                                            std::size_t words = 64) {
  GlobalMemory memory(1U << 24);
  const Program program = parse_program(text, memory);
  Allocation* out = memory.allocate(4 * words);
  std::vector<std::uint8_t> parameters(8);
  std::memcpy(parameters.data(), &out->address, 8);
  run_grid(program, *program.find_entry("k"), shape, parameters, memory);
  std::vector<std::uint32_t> result(words, 0xdeadbeef);
  for (std::size_t i = 0; i < words; ++i) {
    if (out->contents.defined()[4 * i] != 0) {
      std::memcpy(&result[i], out->contents.bytes() + 4 * i, 4);
    }
  }
  return result;
}

/// The first word of the output of a kernel with this body.
inline std::uint32_t run_body(const std::string& body) { return run_words(kernel_of(body))[0]; }

/// The ProgramError that running `text` ends in; fails the test if there is none.
inline ProgramError fault_of(const std::string& text, const LaunchShape& shape = {}) {
  try {
    run_words(text, shape);
  } catch (const ProgramError& error) {
    return error;
  }
  ADD_FAILURE() << "no fault in\n" << text;
  return {FaultKind::trap, ""};
}

}  // namespace spjit::emulated
