#include "base/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/number_text.hpp"
#include "base/quantities.hpp"
#include "base/thread_pool.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::optional<std::string> read_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace

Environment read_environment() {
  return {.spjit_cache_dir = read_variable("SPJIT_CACHE_DIR"),
          .spjit_num_threads = read_variable("SPJIT_NUM_THREADS"),
          .xdg_cache_home = read_variable("XDG_CACHE_HOME"),
          .home = read_variable("HOME")};
}

CacheEnvironment read_cache_environment() {
  return {.unsafe = read_variable("SPJIT_CACHE_UNSAFE"),
          .size = read_variable("SPJIT_CACHE_SIZE"),
          .layers = read_variable("SPJIT_CACHE_LAYERS")};
}

RemoteEnvironment read_remote_environment() {
  return {.remote = read_variable("SPJIT_CACHE_REMOTE"),
          .xdg_config_home = read_variable("XDG_CONFIG_HOME"),
          .home = read_variable("HOME")};
}

std::filesystem::path default_remote_file(const RemoteEnvironment& environment) {
  namespace fs = std::filesystem;
  const fs::path name = fs::path("spjit") / "remote.json";
  if (environment.xdg_config_home && fs::path(*environment.xdg_config_home).is_absolute()) {
    return *environment.xdg_config_home / name;
  }
  if (environment.home) return fs::path(*environment.home) / ".config" / name;
  return {};
}

AwsEnvironment read_aws_environment() {
  AwsEnvironment environment{.access_key = read_variable("AWS_ACCESS_KEY_ID"),
                             .secret_key = read_variable("AWS_SECRET_ACCESS_KEY"),
                             .session_token = read_variable("AWS_SESSION_TOKEN"),
                             .region = read_variable("AWS_REGION")};
  if (!environment.region) environment.region = read_variable("AWS_DEFAULT_REGION");
  return environment;
}

TerminalEnvironment read_terminal_environment() {
  return {.no_color = read_variable("NO_COLOR").has_value(), .term = read_variable("TERM")};
}

CudaEnvironment read_cuda_environment() {
  return {.spjit_cuda_path = read_variable("SPJIT_CUDA_PATH"),
          .cuda_home = read_variable("CUDA_HOME"),
          .cuda_path = read_variable("CUDA_PATH"),
          .spjit_cuda_driver = read_variable("SPJIT_CUDA_DRIVER")};
}

std::filesystem::path default_cache_directory(const Environment& environment) {
  namespace fs = std::filesystem;
  if (environment.spjit_cache_dir) return *environment.spjit_cache_dir;
  if (environment.xdg_cache_home && fs::path(*environment.xdg_cache_home).is_absolute()) {
    return fs::path(*environment.xdg_cache_home) / "spjit";
  }
  if (environment.home) return fs::path(*environment.home) / ".cache" / "spjit";
  throw CacheError(
      "no cache directory: none of SPJIT_CACHE_DIR, XDG_CACHE_HOME (absolute) and HOME is set; "
      "set SPJIT_CACHE_DIR or name a directory in the options");
}

bool default_cache_unsafe(const CacheEnvironment& environment) {
  const std::string text = environment.unsafe.value_or("0");
  if (text != "0" && text != "1") {
    throw InvalidArgument(fmt::format("SPJIT_CACHE_UNSAFE is '{}': expected 1 or 0", text));
  }
  return text == "1";
}

std::int64_t default_cache_size(const CacheEnvironment& environment, std::int64_t fallback) {
  if (!environment.size) return fallback;
  return parse_byte_size(*environment.size, "SPJIT_CACHE_SIZE");
}

std::vector<std::filesystem::path> default_cache_layers(const CacheEnvironment& environment) {
  std::vector<std::filesystem::path> layers;
  std::string_view rest = environment.layers ? std::string_view(*environment.layers) : "";
  while (!rest.empty()) {
    const std::string_view layer = rest.substr(0, rest.find(':'));
    if (!layer.empty()) layers.emplace_back(layer);
    rest.remove_prefix(std::min(layer.size() + 1, rest.size()));
  }
  return layers;
}

int default_threads(const Environment& environment, int fallback) {
  if (!environment.spjit_num_threads) return fallback;
  const std::string_view text = *environment.spjit_num_threads;
  const int threads = read_number<int>(text).value_or(0);
  if (threads < 1 || threads > k_most_threads) {
    throw InvalidArgument(
        fmt::format("SPJIT_NUM_THREADS is '{}': expected an integer in 1 .. {}; correct it or "
                    "unset it to use all {} CPUs",
                    text, k_most_threads, fallback));
  }
  return threads;
}

}  // namespace spjit
