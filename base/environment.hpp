#pragma once

/// @file
/// The environment variables spjit looks at. No other file reads any.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spjit {

/// The variables as they are; an empty one counts as not set.
struct Environment {
  std::optional<std::string> spjit_cache_dir;    ///< SPJIT_CACHE_DIR: the cache directory itself
  std::optional<std::string> spjit_num_threads;  ///< SPJIT_NUM_THREADS: threads a kernel runs on
  std::optional<std::string> xdg_cache_home;     ///< XDG_CACHE_HOME
  std::optional<std::string> home;               ///< HOME
};

[[nodiscard]] Environment read_environment();

/// How a cache is to be used; an empty variable counts as not set.
struct CacheEnvironment {
  std::optional<std::string> unsafe;  ///< SPJIT_CACHE_UNSAFE: "1" or "0"
  std::optional<std::string> size;    ///< SPJIT_CACHE_SIZE: the size limit
  std::optional<std::string> layers;  ///< SPJIT_CACHE_LAYERS: read-only layers, ':' between
};

[[nodiscard]] CacheEnvironment read_cache_environment();

/// Where a server with kernels is, and who asks it; an empty variable counts as not set.
struct RemoteEnvironment {
  std::optional<std::string> remote;           ///< SPJIT_CACHE_REMOTE: a URL, a file, or "off"
  std::optional<std::string> xdg_config_home;  ///< XDG_CONFIG_HOME
  std::optional<std::string> home;             ///< HOME
};

[[nodiscard]] RemoteEnvironment read_remote_environment();

/// $XDG_CONFIG_HOME/spjit/remote.json (relative paths are ignored), else
/// $HOME/.config/spjit/remote.json. Empty if neither is set.
[[nodiscard]] std::filesystem::path default_remote_file(const RemoteEnvironment& environment);

/// Keys of S3, by the names that Amazon's own tools give them.
struct AwsEnvironment {
  std::optional<std::string> access_key;     ///< AWS_ACCESS_KEY_ID
  std::optional<std::string> secret_key;     ///< AWS_SECRET_ACCESS_KEY
  std::optional<std::string> session_token;  ///< AWS_SESSION_TOKEN
  std::optional<std::string> region;         ///< AWS_REGION, else AWS_DEFAULT_REGION
};

[[nodiscard]] AwsEnvironment read_aws_environment();

/// Variables that the command line tool's output depends on.
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

/// Whether SPJIT_CACHE_UNSAFE asks to use directories that others can write to. Throws
/// InvalidArgument for anything but "0" and "1".
[[nodiscard]] bool default_cache_unsafe(const CacheEnvironment& environment);

/// SPJIT_CACHE_SIZE in bytes (0: no limit), else `fallback`. Throws InvalidArgument as
/// parse_byte_size().
[[nodiscard]] std::int64_t default_cache_size(const CacheEnvironment& environment,
                                              std::int64_t fallback);

/// The directories in SPJIT_CACHE_LAYERS, empty ones left out.
[[nodiscard]] std::vector<std::filesystem::path> default_cache_layers(
    const CacheEnvironment& environment);

/// SPJIT_NUM_THREADS if set, else `fallback` (usually HostCpu::logical_cpus).
/// Throws InvalidArgument unless the variable is an integer in 1 .. 4096.
[[nodiscard]] int default_threads(const Environment& environment, int fallback);

}  // namespace spjit
