#pragma once

/// @file
/// NVIDIA's disassembler as a process, where scripts/build/setup_cuda.sh or a CUDA toolkit has
/// brought it.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "sass/instruction.hpp"
#include "tests/support/files/golden.hpp"

namespace spjit::testing_support {

/// SPJIT_CUDA_PATH, .cuda of the sources, PATH, /usr/local/cuda.
[[nodiscard]] inline std::optional<std::filesystem::path> find_nvdisasm() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  std::vector<fs::path> wheels = {fs::path(SPJIT_SOURCE_DIR) / ".cuda"};
  if (const char* path = std::getenv("SPJIT_CUDA_PATH")) wheels.insert(wheels.begin(), path);
  for (const fs::path& wheel : wheels) {
    if (!fs::is_directory(wheel / "nvidia")) continue;
    for (const auto& entry : fs::directory_iterator(wheel / "nvidia")) {
      folders.push_back(entry.path() / "bin");
    }
  }
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / "nvdisasm")) return folder / "nvdisasm";
  }
  return std::nullopt;
}

/// Without what only lays out a line: `;`, blanks before a comma or bracket, two blanks in a row.
[[nodiscard]] inline std::string plain_text(std::string_view line) {
  std::string text;
  for (const char c : line) {
    if (c == ';') continue;
    const bool is_blank = c == ' ' || c == '\t';
    if ((is_blank || c == ',' || c == ']') && !text.empty() && text.back() == ' ') text.pop_back();
    if (is_blank && text.empty()) continue;
    text += is_blank ? ' ' : c;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// The texts of instructions that lie one after another from offset 0, and what nvdisasm printed
/// where that is not a text for each.
struct Disassembly {
  std::vector<std::string> texts;
  std::string output;
};

[[nodiscard]] inline Disassembly disassemble(const std::filesystem::path& nvdisasm,
                                             std::span<const sass::Encoding> code, int arch,
                                             const std::filesystem::path& folder) {
  const std::filesystem::path binary = folder / "code.bin";
  std::ofstream(binary, std::ios::binary)
      .write(reinterpret_cast<const char*>(code.data()),
             static_cast<std::streamsize>(code.size_bytes()));
  const std::filesystem::path log = folder / "code.txt";
  std::ostringstream command;
  command << "'" << nvdisasm.string() << "' -b SM" << arch << " -ndf '" << binary.string() << "' >'"
          << log.string() << "' 2>&1";
  const int status = std::system(command.str().c_str());
  Disassembly result;
  std::istringstream lines(read_text(log));
  for (std::string line; std::getline(lines, line);) {
    // "        /*0010*/                   MOV R1, 0x2 ;"
    const std::size_t open = line.find("/*");
    const std::size_t close = line.find("*/");
    if (open == std::string::npos || close == std::string::npos) continue;
    if (line.find_first_not_of(" \t") != open) continue;
    result.texts.push_back(plain_text(line.substr(close + 2)));
  }
  if (status != 0 || result.texts.size() != code.size()) result.output = read_text(log);
  return result;
}

}  // namespace spjit::testing_support
