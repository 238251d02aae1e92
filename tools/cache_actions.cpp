#include "cache_actions.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "compiler/kernel_cache.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {

CLI::App* add_cache_action(CLI::App& cache, CacheActionOptions& options,
                           const std::string& action) {
  CLI::App* command = cache.add_subcommand(action);
  set_manual(*command, "cache_" + action);
  add_cache_directory(*command, options.cache);
  add_json(*command, options.json);
  return command;
}

CacheStore open_store(const CacheActionOptions& options, CacheMustExist must_exist) {
  CacheStore store = open_cache_directory(options.cache);
  const bool must = must_exist == CacheMustExist::yes ||
                    (must_exist == CacheMustExist::if_named && !options.cache.directory.empty());
  std::error_code ignored;
  if (must && !std::filesystem::exists(store.root(), ignored)) {
    throw CacheError(
        fmt::format("there is no cache directory '{}'; name one that 'spjit compile' "
                    "has put kernels in",
                    store.root().string()));
  }
  return store;
}

std::vector<CacheListing> find_entries(const CacheStore& store, const std::string& prefix) {
  std::vector<CacheListing> found = store.list();
  std::erase_if(found, [&](const CacheListing& entry) { return !entry.key.starts_with(prefix); });
  if (found.empty()) {
    throw CacheError(fmt::format("no key in {} begins with '{}'; 'spjit cache ls' lists them",
                                 store.root().string(), prefix));
  }
  return found;
}

std::string size_text(std::int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

}  // namespace spjit::cli
