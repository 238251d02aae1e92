#pragma once

/// @file
/// Options of every bench that goes through many cases and saves each, with their defaults.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ratio>
#include <string>
#include <vector>

namespace spjit::bench {

struct RunOptions {
  std::filesystem::path json;  ///< empty: named by the device
  bool append = false;
  double max_minutes = 0;  ///< of measuring; 0: as long as it takes
  bool quick = false;
};

/// The words of a bench in its help.
struct RunWords {
  std::string result;  ///< of the default file: "KIND" for KIND-CPU.json
  std::string begun;   ///< what is begun one after another: "no other matrix"
  std::string quick;
};

/// Refers to `options`.
inline void add_run_options(CLI::App& app, RunOptions& options, const RunWords& words) {
  app.add_option("--json", options.json,
                 "The result (default: " + words.result + "-CPU.json here)");
  app.add_flag("--append", options.append, "Keep the cases of --json's file, measure the others");
  app.add_option("--max-minutes", options.max_minutes,
                 "Begin " + words.begun + " after this long; 0: go on to the end")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--quick", options.quick, words.quick);
}

/// Whether a run that began then has some of its `max_minutes` left; 0: as long as it takes.
[[nodiscard]] inline bool has_time(double max_minutes,
                                   std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double, std::ratio<60>> most(max_minutes);
  return max_minutes == 0 || std::chrono::steady_clock::now() - begin < most;
}

/// Whether the name contains one of `parts`, or there are none.
[[nodiscard]] inline bool is_wanted(const std::string& name,
                                    const std::vector<std::string>& parts) {
  return parts.empty() || std::ranges::any_of(parts, [&](const std::string& part) {
           return name.find(part) != std::string::npos;
         });
}

/// As a result file has it.
[[nodiscard]] inline std::string command_line(int argc, char** argv) {
  std::string text = std::filesystem::path(argv[0]).filename().string();
  for (int i = 1; i < argc; ++i) text += ' ' + std::string(argv[i]);
  return text;
}

}  // namespace spjit::bench
