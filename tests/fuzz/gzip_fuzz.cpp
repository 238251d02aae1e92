// gzip: what is decompressed is within the limit and the same after it was compressed again; and
// any bytes come back that are compressed first.

#include <algorithm>

#include "base/gzip.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

// Small, so that bombs take no more time than other inputs.
constexpr std::size_t k_limit_bytes = std::size_t{64} << 10;

void check_round_trip(std::string_view text) {
  const std::vector<std::byte> compressed = gzip(text);
  expect(gunzip(compressed, static_cast<std::int64_t>(text.size())) == text,
         "the text is another after compressing and decompressing");
}

void run(Bytes input) {
  // While text grows, its old and its new place are held.
  constexpr std::size_t k_best_ratio = 1032;
  constexpr std::size_t k_fixed = std::size_t{2} << 20;
  const std::size_t most = 3 * std::min(k_limit_bytes, k_best_ratio * input.size()) + k_fixed;
  const auto text = read_within(
      most, {}, [&] { return gunzip(input, static_cast<std::int64_t>(k_limit_bytes)); });
  if (!text) {
    check_round_trip(as_text(input));
    return;
  }
  expect(text->size() <= k_limit_bytes, "more text than the limit allows");
  check_round_trip(*text);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
