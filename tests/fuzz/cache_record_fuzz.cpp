// record.json: a text that is accepted is the one that writing its record gives. The input is what
// follows the checksum, which is put before it: by chance no checksum ever fits.

#include <fmt/format.h>

#include "base/hash.hpp"
#include "kernels/kernel_record.hpp"
#include "runtime/cache/cache_record.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

void check(std::string_view text) {
  constexpr std::size_t k_per_byte = 128;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto record =
      read_within(k_per_byte * text.size() + k_fixed, {}, [&] { return parse_cache_record(text); });
  if (!record) return;
  expect(write_cache_record(*record) == text, "the record is written as another text");
  for (const CacheFileRecord& file : record->files) {
    expect(is_cache_file_name(file.name) && file.bytes >= 0, "a file that is not allowed");
  }
  KernelInfo info;
  apply_record(record->kernel, info);
}

void run(Bytes input) {
  check(as_text(input));
  check(fmt::format("{{\"checksum\": \"{}\",\n{}", checksum_hex(input), as_text(input)));
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
