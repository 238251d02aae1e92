#pragma once

/// @file
/// ptxas and nvcc as processes, where a CUDA toolkit is installed.

#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "tests/support/files/golden.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// The tool's path: CUDA_HOME, PATH, then /usr/local/cuda.
[[nodiscard]] inline std::optional<std::filesystem::path> find_cuda_tool(const std::string& name) {
  std::vector<std::filesystem::path> folders;
  if (const char* home = std::getenv("CUDA_HOME")) {
    folders.push_back(std::filesystem::path(home) / "bin");
  }
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::filesystem::path& folder : folders) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

struct ProcessResult {
  int status = -1;     ///< exit status
  std::string output;  ///< stdout and stderr
};

/// Compiles one unit; the object is `directory/NAME.o`.
[[nodiscard]] inline ProcessResult compile_unit(const std::filesystem::path& tool,
                                                const std::filesystem::path& directory,
                                                const SourceUnit& unit,
                                                const std::string& options) {
  const bool cuda = unit.language == SourceLanguage::cuda;
  const std::filesystem::path source = directory / (unit.name + (cuda ? ".cu" : ".ptx"));
  std::ofstream(source, std::ios::binary) << unit.text;
  const std::filesystem::path log = directory / "log";
  const std::string relocatable = !unit.relocatable ? "" : cuda ? " -rdc=true" : " -c";
  // Not "'" + tool.string(): GCC 12 sees an overlap in that insertion where there is none.
  const std::string command =
      std::string("'") + tool.string() + "'" + (cuda ? " -cubin -Werror all-warnings" : "") +
      relocatable + " " + options + " '" + source.string() + "' -o '" +
      (directory / (unit.name + ".o")).string() + "' >'" + log.string() + "' 2>&1";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(log)};
}

/// Bytes of machine code in a 64-bit ELF object: the sizes of its sections `.text*`.
[[nodiscard]] inline std::int64_t text_bytes(const std::filesystem::path& object) {
  const std::string bytes = read_text(object);
  const auto read = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.substr(at).data(), size);
    return static_cast<std::size_t>(value);
  };
  const std::size_t table = read(0x28, 8);
  const std::size_t entry = read(0x3A, 2);
  const std::size_t count = read(0x3C, 2);
  const std::size_t names = read(table + read(0x3E, 2) * entry + 0x18, 8);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t header = table + i * entry;
    const std::string name = bytes.c_str() + names + read(header, 4);
    if (name.starts_with(".text")) sum += read(header + 0x20, 8);
  }
  return static_cast<std::int64_t>(sum);
}

}  // namespace spjit::testing_support
