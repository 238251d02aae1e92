#pragma once

/// @file
/// Chooses how much a test tries: less by default, all with SPJIT_LONG=1 (docs/design/testing.md,
/// "Daily and long"). tests/support/long_tests.py says the same for Python.

#include <gtest/gtest.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace spjit::testing_support {

/// Whether every test takes all of its cases.
[[nodiscard]] inline bool long_tests() {
  const char* text = std::getenv("SPJIT_LONG");
  return text != nullptr && std::string_view(text) == "1";
}

/// SPJIT_TURN, the run's number (scripts/test.sh counts commits); 0 if nobody says it.
[[nodiscard]] inline std::uint64_t run_number() {
  const char* text = std::getenv("SPJIT_TURN");
  const std::string_view digits = text == nullptr ? "0" : text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    throw std::invalid_argument("SPJIT_TURN is '" + std::string(digits) +
                                "'; expected a whole number from 0 on");
  }
  return number;
}

/// Which of so many parts has its turn: the run's number plus a hash of the test's name (FNV-1a),
/// so that tests of one run are at different parts, and runs that follow each other go through all.
[[nodiscard]] inline std::size_t turn_of(std::size_t parts, std::string_view test) {
  std::uint32_t hash = 2166136261;
  for (const char letter : test) {
    hash = (hash ^ static_cast<std::uint8_t>(letter)) * std::uint32_t{16777619};
  }
  return static_cast<std::size_t>((run_number() + hash) % parts);
}

/// Of the test that runs.
[[nodiscard]] inline std::size_t turn_of(std::size_t parts) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return turn_of(parts, std::string(test->test_suite_name()) + "." + test->name());
}

/// Every `parts`-th case from the one on whose turn it is; all of them with SPJIT_LONG=1.
template <class Case>
[[nodiscard]] std::vector<Case> in_turn(std::size_t parts, const std::vector<Case>& cases) {
  if (long_tests()) return cases;
  std::vector<Case> taken;
  for (std::size_t i = turn_of(parts); i < cases.size(); i += parts) taken.push_back(cases[i]);
  return taken;
}

/// One of the cases; all of them with SPJIT_LONG=1.
template <class Case>
[[nodiscard]] std::vector<Case> in_turn(const std::vector<Case>& cases) {
  return in_turn(cases.size(), cases);
}

/// Whether the CPU is emulated, where a test takes a hundred times as long: tests/avx512/init.cpp
/// says it by SPJIT_EMULATED=1.
[[nodiscard]] inline bool emulated_cpu() {
  const char* text = std::getenv("SPJIT_EMULATED");
  return text != nullptr && std::string_view(text) == "1";
}

/// `in_turn` on an emulated CPU, all cases elsewhere.
template <class Case>
[[nodiscard]] std::vector<Case> in_turn_if_emulated(std::size_t parts,
                                                    const std::vector<Case>& cases) {
  return emulated_cpu() ? in_turn(parts, cases) : cases;
}

}  // namespace spjit::testing_support
