// Lines of tiles of the host and of GPUs: what is read can be written, and is the same line when it
// was read again.

#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

template <class Read>
void run(std::string_view line, const Read& read) {
  constexpr std::size_t k_per_byte = 192;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto group =
      read_within(k_per_byte * line.size() + k_fixed, {}, [&] { return read(line); });
  if (!group) return;
  const std::string written = write_samples(*group);
  expect(write_samples(read(written)) == written, "the line is another after writing and reading");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line = spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size));
  spjit::fuzz::run(line, spjit::read_host_samples);
  spjit::fuzz::run(line, spjit::read_cuda_samples);
  return 0;
}
