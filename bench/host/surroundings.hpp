#pragma once

/// @file
/// The machine, its load and temporary files: a benchmark leaves no trace in them.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/host_cpu.hpp"

namespace spjit::bench {

/// Processes that wanted to run, on average over the last minute; 0 if the system does not say.
[[nodiscard]] inline double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

/// "2026-01-02T03:04:05Z"
[[nodiscard]] inline std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

/// "AMD EPYC family 26 model 2": hypervisors hide the rest of a name.
[[nodiscard]] inline std::string cpu_name(const HostCpu& cpu) {
  return fmt::format("{} family {} model {}", cpu.model_name, cpu.family, cpu.model);
}

/// "AMD EPYC 9354" becomes "amd-epyc-9354": a file name.
[[nodiscard]] inline std::string file_name_of(const std::string& cpu) {
  std::string name;
  for (const char character : cpu) {
    const auto byte = static_cast<unsigned char>(character);
    if (std::isalnum(byte) != 0) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "unknown" : name;
}

/// Over this, other work disturbs what is measured.
inline constexpr double k_busy_load_average = 0.5;

/// The path of a directory of this process, not made yet, that goes away with this.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "-" + std::to_string(getpid()))) {}
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace spjit::bench
