// Cubins: names, sizes and instructions of what is found are backed by the file.

#include "runtime/cuda/cubin_info.hpp"
#include "sass/cubin_code.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

void run(Bytes bytes) {
  constexpr std::size_t k_per_byte = 64;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto cubin =
      read_within(k_per_byte * bytes.size() + k_fixed, {}, [&] { return read_cubin_info(bytes); });
  if (!cubin) return;
  const auto file_bytes = static_cast<std::int64_t>(bytes.size());
  std::size_t name_bytes = 0;
  for (const CubinKernel& kernel : cubin->kernels) {
    expect(cubin->find_kernel(kernel.name) == &kernel, "a kernel that is not found by its name");
    expect(kernel.code_bytes <= file_bytes && kernel.constant_bytes <= file_bytes,
           "code or constants larger than the file");
    name_bytes += kernel.name.size();
  }
  for (const CubinFunction& function : cubin->functions) name_bytes += function.name.size();
  expect(name_bytes <= bytes.size(), "names longer than the file");
  expect(cubin->code_bytes <= file_bytes, "code larger than the file");

  // An instruction of 16 bytes takes some 300.
  const auto code = read_within(k_per_byte * bytes.size() + k_fixed, {},
                                [&] { return sass::read_cubin_code(bytes); });
  if (!code) return;
  std::int64_t code_bytes = 0;
  for (const sass::Function& function : code->functions) {
    for (const sass::Instruction& instruction : function.instructions) {
      expect(!to_text(instruction).empty(), "an instruction without a text");
      code_bytes += sass::k_instruction_bytes;
    }
  }
  expect(code_bytes <= cubin->code_bytes, "more instructions than code");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
