// Lines of measured tiles: what is read can be written, and is the same line when it was read
// again.

#include "kernels/unrolled_host/host_samples.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

void run(std::string_view line) {
  constexpr std::size_t k_per_byte = 96;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto group =
      read_within(k_per_byte * line.size() + k_fixed, {}, [&] { return read_host_samples(line); });
  if (!group) return;
  const std::string written = write_samples(*group);
  expect(write_samples(read_host_samples(written)) == written,
         "the line is another after writing and reading");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
