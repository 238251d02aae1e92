#pragma once

/// @file
/// Options of every bench that goes through many cases and saves each, with their defaults.

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <ratio>
#include <string>

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

/// Whether `max_minutes` are left of a run that began then.
[[nodiscard]] inline bool has_time(const RunOptions& options,
                                   std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double, std::ratio<60>> most(options.max_minutes);
  return options.max_minutes == 0 || std::chrono::steady_clock::now() - begin < most;
}

}  // namespace spjit::bench
