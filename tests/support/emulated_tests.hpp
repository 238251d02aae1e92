#pragma once

/// @file
/// scripts/check/avx512_tests.sh finds the tests of AVX-512 by their names, to run them in an
/// emulator where the CPU has none. A test that skips and would not be found there fails.

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace spjit::testing_support {

/// Whether a text has "avx512" or "AVX-512".
[[nodiscard]] inline bool names_avx512(std::string text) {
  std::erase(text, '-');
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("avx512") != std::string::npos;
}

/// The reason that keeps the test `name` of `program`, which has skipped for `reason`, from being
/// emulated; empty if it needs no AVX-512 or is emulated. `programs` are those that are, with
/// spaces between.
[[nodiscard]] inline std::string not_emulated(const std::string& name, const std::string& reason,
                                              const std::string& program,
                                              const std::string& programs) {
  if (!names_avx512(reason)) return {};
  if (!names_avx512(name)) {
    return name + " needs AVX-512: it must have avx512 in its name, by which " +
           "scripts/check/avx512_tests.sh finds it";
  }
  if ((' ' + programs + ' ').find(' ' + program + ' ') == std::string::npos) {
    return name + " needs AVX-512: emulated_programs of tests/CMakeLists.txt must name " + program;
  }
  return {};
}

}  // namespace spjit::testing_support
