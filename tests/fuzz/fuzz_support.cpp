#include "tests/fuzz/fuzz_support.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <typeinfo>
#include <vector>

namespace spjit::fuzz {

void report(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

void report_exception(const std::exception& error) {
  report(std::string("an exception of type ") + typeid(error).name() +
         " was thrown: " + error.what());
}

void check_message(std::string_view message, Refusal refusal) {
  const auto fail = [&](const char* what) {
    report("the message is " + std::string(what) + ": " + std::string(message));
  };
  if (message.empty()) fail("empty");
  if (std::ranges::any_of(message, [](char c) { return c >= 0 && c < ' '; })) {
    fail("more than one line, or holds control characters");
  }
  if (refusal.name.empty()) return;
  if (!message.starts_with(refusal.name)) fail("without the name of the file");
  std::string_view rest = message.substr(refusal.name.size());
  if (refusal.with_line) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    if (!rest.starts_with(':') || digits < 2) fail("without the line");
    rest.remove_prefix(digits);
  }
  if (!rest.starts_with(": ") || rest.size() < 3) fail("without a reason");
}

void check_meter() {
  constexpr std::int64_t k_bytes = std::int64_t{1} << 20;
  const MemoryMeter meter;
  for (int round = 0; round < 2; ++round) {
    const std::vector<char> block(static_cast<std::size_t>(k_bytes));
    expect(block.back() == 0, "memory is not zero");
  }
  // Two blocks, one after the other: what was given back must not count.
  expect(meter.peak_bytes() >= k_bytes && meter.peak_bytes() < 2 * k_bytes,
         "allocations are not counted");
}

}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  spjit::fuzz::check_meter();
  return 0;
}
