#pragma once

/// @file
/// Cubins of machine code put together by hand, for sm_75: they need none of NVIDIA's libraries.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cuda/cubin_writer.hpp"
#include "tests/support/cuda/sass_golden.hpp"

namespace spjit::testing_support {

/// An instruction by its bits, as in tests/golden/sass.txt, with other control bits.
struct Code {
  std::string encoding;
  std::uint8_t stall = 6;  ///< cycles
  std::uint8_t write_barrier = sass::k_no_scoreboard;
  std::uint8_t read_barrier = sass::k_no_scoreboard;
  std::uint8_t wait_mask = 0;

  [[nodiscard]] sass::Encoding bits() const {
    constexpr unsigned first = 105 - 64;
    constexpr std::uint64_t no_yield = 1;
    sass::Encoding made = parse_encoding(encoding);
    const std::uint64_t control = stall | no_yield << 4 | std::uint64_t{write_barrier} << 5 |
                                  std::uint64_t{read_barrier} << 8 | std::uint64_t{wait_mask} << 11;
    made[1] = (made[1] & ~(std::uint64_t{0x1ffff} << first)) | control << first;
    return made;
  }
};

/// A kernel's name, its registers and its code.
struct TestKernel {
  std::string name = "k";
  std::uint32_t registers = 16;
  std::uint64_t shared_bytes = 0;
  std::vector<Code> code;
};

/// A cubin of kernels with a parameter of 64 bits at c[0x0][0x160].
[[nodiscard]] inline std::vector<std::byte> cubin_of(const std::vector<TestKernel>& kernels) {
  TestCubin cubin;
  cubin.flags = 0x06004b04;  // sm_75
  Content counts;
  std::uint32_t symbol = 0;
  for (const TestKernel& kernel : kernels) {
    Content code;
    for (const Code& each : kernel.code) append(code, each.bits());
    const auto section = static_cast<std::uint16_t>(k_first_section + cubin.sections.size());
    cubin.symbols.push_back({kernel.name, 0x10, section});
    cubin.sections.push_back(
        {".text." + kernel.name, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code, 0, 0});
    cubin.sections.push_back({".nv.info." + kernel.name, SHT_LOPROC, 0,
                              join({record(0x0a, {section, 8U << 16 | 0x160}),
                                    record(0x17, {0, 0, 8U << 18}), short_record(0x19, 8)}),
                              0, 0});
    if (kernel.shared_bytes > 0) {
      cubin.sections.push_back({".nv.shared." + kernel.name,
                                SHT_NOBITS,
                                SHF_ALLOC | SHF_WRITE,
                                {},
                                kernel.shared_bytes,
                                0});
    }
    counts = join({counts, record(0x2f, {++symbol, kernel.registers})});
  }
  cubin.sections.push_back({".nv.info", SHT_LOPROC, 0, counts, 0, 0});
  return write_cubin(cubin);
}

}  // namespace spjit::testing_support
