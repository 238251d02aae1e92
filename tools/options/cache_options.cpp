#include "tools/options/cache_options.hpp"

#include <fmt/format.h>

#include "base/quantities.hpp"
#include "spjit/error.hpp"
#include "tools/options/kernel_options.hpp"

namespace spjit::cli {

void add_cache_directory(CLI::App& command, CacheOptions& options) {
  command
      .add_option(
          "--cache", options.directory,
          "The cache directory. Default: $SPJIT_CACHE_DIR, else $XDG_CACHE_HOME/spjit, else "
          "$HOME/.cache/spjit.")
      ->check(not_empty())
      ->type_name("DIR");
  command.add_flag("--cache-unsafe", options.allow_unsafe_directory,
                   "Use a cache directory, and what is in it, even if it belongs to another user "
                   "or others can write to it. Whoever can, runs code as you.");
}

void add_cache_remote(CLI::App& command, CacheOptions& options) {
  command
      .add_option_function<std::string>(
          "--cache-remote",
          [&options](const std::string& text) {
            options.remote = text == "off" ? RemoteCacheOptions{} : read_remote_cache(text);
          },
          "A server that is asked last for kernels that take long to compile: its URL, or a file "
          "with its options; off: none. Default: $SPJIT_CACHE_REMOTE, else "
          "$XDG_CONFIG_HOME/spjit/remote.json or ~/.config/spjit/remote.json.")
      ->check(not_empty())
      ->type_name("URL");
}

void add_cache_layers(CLI::App& command, CacheOptions& options) {
  command
      .add_option(
          "--cache-layer", options.read_only_layers,
          "A cache directory or bundle that is looked at next and never written to. Can be given "
          "several times; looked at in that order. Default: $SPJIT_CACHE_LAYERS.")
      ->allow_extra_args(false)
      ->check(not_empty())
      ->type_name("DIR");
}

void add_cache_use(CLI::App& command, CacheOptions& options) {
  command
      .add_option_function<std::string>(
          "--cache-size",
          [&options](const std::string& text) {
            options.size_limit_bytes = parse_byte_size(text, "--cache-size");
          },
          "What the kernels in the cache directory may have: bytes, or a number with K, M, G or T "
          "(powers of 1024). The least recently used ones are removed. 0: no limit. Default: "
          "$SPJIT_CACHE_SIZE, else 4G.")
      ->type_name("SIZE");
  add_cache_layers(command, options);
  add_cache_remote(command, options);
  CLI::Option* none = command.add_flag_function(
      "--no-cache", [&options](std::int64_t) { options.enabled = false; },
      "Neither look in the cache nor add to it.");
  for (const char* option :
       {"--cache", "--cache-unsafe", "--cache-size", "--cache-layer", "--cache-remote"}) {
    none->excludes(option);
  }
}

void add_compile_when(CLI::App& command, CompileWhen& when) {
  add_name(command, "--compile", when, parse_compile_when,
           "needed: a kernel that no cache has is compiled; never: it is an error that says what "
           "the caches have.")
      ->type_name("WHEN")
      ->default_str(std::string(to_string(when)));
}

void require_cached(const std::string& not_cached, const CacheOptions& options) {
  if (not_cached.empty() || options.directory.empty()) return;
  throw Error(fmt::format("not cached, which --cache asks for: {}", not_cached));
}

void flush_remote(const Compiler& compiler) {
  const RemoteFlush flushed = compiler.flush_remote();
  if (!flushed.refused.empty()) print_note(flushed.refused);
}

}  // namespace spjit::cli
