#pragma once

/// @file
/// Helpers that every fuzz target has around a reader. A target is a function
/// LLVMFuzzerTestOneInput in a file NAME_fuzz.cpp, which says what it promises;
/// docs/design/testing.md says what all of them do.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "spjit/error.hpp"
#include "tests/fuzz/memory_meter.hpp"

/// The function that libFuzzer and the replaying main() call. Returns 0; a finding ends the
/// program.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Called once before the first input: ends the program if memory is not counted.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace spjit::fuzz {

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Ends the program: the input shows that a promise does not hold.
[[noreturn]] void report(const std::string& what);

inline void expect(bool holds, const char* what) {
  if (!holds) report(what);
}

/// How a reader refuses: `name` is what it was told the file is called, empty if it takes none.
struct Refusal {
  std::string_view name;
  bool with_line = false;  ///< "name:7: reason", not "name: reason"
};

/// Reports a message that is not one line, or does not begin as it must.
void check_message(std::string_view message, Refusal refusal);

[[noreturn]] void report_exception(const std::exception& error);

/// The result of `read`; none if it refused its input with a spjit::Error as promised. Reports any
/// other exception, and more than `most_bytes` of heap held at once.
template <typename Read>
std::optional<std::invoke_result_t<Read&>> read_within(std::size_t most_bytes, Refusal refusal,
                                                       Read&& read) {
  const MemoryMeter meter;
  std::optional<std::invoke_result_t<Read&>> result;
  try {
    result.emplace(read());
  } catch (const Error& error) {
    check_message(error.what(), refusal);
  } catch (const std::exception& error) {
    report_exception(error);
  }
  if (const std::int64_t peak = meter.peak_bytes(); peak > static_cast<std::int64_t>(most_bytes)) {
    report(std::to_string(peak) + " bytes were allocated; expected at most " +
           std::to_string(most_bytes));
  }
  return result;
}

}  // namespace spjit::fuzz
