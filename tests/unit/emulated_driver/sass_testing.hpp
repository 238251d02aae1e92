#pragma once

/// @file
/// Programs of machine code put together by hand, for sm_75: they need none of NVIDIA's libraries.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "emulated_driver/program_error.hpp"
#include "emulated_driver/sass/sass_machine.hpp"
#include "tests/support/cuda/sass_code.hpp"

namespace spjit::emulated {

using testing_support::Code;
using testing_support::cubin_of;
using testing_support::TestKernel;

/// Runs the first of the kernels on one block of `threads`, with an output of four words that are
/// 5, 6, 7 and 8; returns them.
[[nodiscard]] inline std::vector<std::uint32_t> run_code(const std::vector<TestKernel>& kernels,
                                                         std::uint32_t threads = 32) {
  GlobalMemory memory(1U << 20);
  const SassProgram program = load_cubin(cubin_of(kernels), 75, memory);
  std::vector<std::uint32_t> words = {5, 6, 7, 8};
  Allocation* out = memory.allocate(words.size() * sizeof(std::uint32_t));
  std::vector<std::uint8_t> bytes(words.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  out->contents.write(0, bytes);
  std::vector<std::uint8_t> parameters(sizeof out->address);
  std::memcpy(parameters.data(), &out->address, parameters.size());
  SassLaunch launch;
  launch.shape.block = {threads, 1, 1};
  launch.parameters = parameters;
  run_sass(program, program.kernels.front(), launch, memory);
  std::memcpy(words.data(), out->contents.bytes(), bytes.size());
  return words;
}

}  // namespace spjit::emulated
