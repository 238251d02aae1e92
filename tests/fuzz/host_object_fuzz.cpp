// kernel.o of a cache entry: the parts of an object that is accepted lie inside it, are the same in
// an object made of them, and their record keeps its promises.

#include "tests/fuzz/host_program_checks.hpp"

namespace spjit::fuzz {
namespace {

void run(Bytes bytes) {
  constexpr std::size_t k_per_byte = 16;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto image = read_within(k_per_byte * bytes.size() + k_fixed, {},
                                 [&] { return read_object(bytes, "kernel"); });
  if (!image) return;
  const std::vector<std::byte> written = write_object(*image, "kernel");
  const HostImage again = read_object(written, "kernel");
  expect(std::ranges::equal(again.text, image->text) &&
             std::ranges::equal(again.weights, image->weights) &&
             std::ranges::equal(again.program, image->program),
         "the parts are others after writing and reading");
  check_program(*image);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
