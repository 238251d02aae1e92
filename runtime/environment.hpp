#pragma once

/// @file
/// The environment variables spjit looks at. No other file reads any.

#include <filesystem>
#include <optional>
#include <string>

namespace spjit {

/// The variables as they are; an empty one counts as not set.
struct Environment {
  std::optional<std::string> spjit_cache_dir;    ///< SPJIT_CACHE_DIR: the cache directory itself
  std::optional<std::string> spjit_num_threads;  ///< SPJIT_NUM_THREADS: threads a kernel runs on
  std::optional<std::string> xdg_cache_home;     ///< XDG_CACHE_HOME
  std::optional<std::string> home;               ///< HOME
};

[[nodiscard]] Environment read_environment();

/// What the command line tool's output depends on.
struct TerminalEnvironment {
  bool no_color = false;            ///< NO_COLOR (no-color.org): set and not empty
  std::optional<std::string> term;  ///< TERM; "dumb" cannot move its cursor
};

[[nodiscard]] TerminalEnvironment read_terminal_environment();

/// Where the user has CUDA's compiler libraries and driver; an empty variable counts as not set.
struct CudaEnvironment {
  std::optional<std::string> spjit_cuda_path;  ///< SPJIT_CUDA_PATH: the only places to look at, ':'
  std::optional<std::string> cuda_home;        ///< CUDA_HOME: a CUDA toolkit
  std::optional<std::string> cuda_path;        ///< CUDA_PATH: the same, as other tools call it
  /// SPJIT_CUDA_DRIVER: the library loaded in place of libcuda.so.1
  std::optional<std::string> spjit_cuda_driver = std::nullopt;
};

[[nodiscard]] CudaEnvironment read_cuda_environment();

/// SPJIT_CACHE_DIR, else $XDG_CACHE_HOME/spjit (relative paths are ignored, as the XDG Base
/// Directory Specification asks), else $HOME/.cache/spjit. Throws CacheError if none is set.
[[nodiscard]] std::filesystem::path default_cache_directory(const Environment& environment);

/// SPJIT_NUM_THREADS if set, else `fallback` (usually HostCpu::logical_cpus).
/// Throws InvalidArgument unless the variable is an integer in 1 .. 4096.
[[nodiscard]] int default_threads(const Environment& environment, int fallback);

}  // namespace spjit
