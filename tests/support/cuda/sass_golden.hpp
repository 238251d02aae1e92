#pragma once

/// @file
/// tests/golden/sass.txt: instructions with the texts that nvdisasm has for them, a line each:
/// architecture, offset, 128 bits, text. tests/nvrtc/sass compares it with nvdisasm.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "sass/instruction.hpp"

namespace spjit::testing_support {

struct GoldenInstruction {
  int arch = 0;
  std::uint32_t offset = 0;  ///< bytes
  sass::Encoding encoding = {};
  std::string text;
};

[[nodiscard]] inline std::filesystem::path golden_instructions_path() {
  return std::filesystem::path(SPJIT_SOURCE_DIR) / "tests/golden/sass.txt";
}

/// "000fe40000000f0000000a0000017a02", the upper half first.
[[nodiscard]] inline sass::Encoding parse_encoding(const std::string& text) {
  return {std::stoull(text.substr(16), nullptr, 16), std::stoull(text.substr(0, 16), nullptr, 16)};
}

[[nodiscard]] inline std::string golden_line(const GoldenInstruction& item) {
  std::ostringstream line;
  line << item.arch << ' ' << item.offset << ' ' << std::hex << std::setfill('0') << std::setw(16)
       << item.encoding[1] << std::setw(16) << item.encoding[0] << ' ' << item.text << '\n';
  return line.str();
}

[[nodiscard]] inline std::vector<GoldenInstruction> read_golden_instructions() {
  std::vector<GoldenInstruction> all;
  std::ifstream file(golden_instructions_path());
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    GoldenInstruction item;
    std::string encoding;
    fields >> item.arch >> item.offset >> encoding;
    item.encoding = parse_encoding(encoding);
    std::getline(fields >> std::ws, item.text);
    all.push_back(item);
  }
  EXPECT_GT(all.size(), 300U) << golden_instructions_path();
  return all;
}

}  // namespace spjit::testing_support
