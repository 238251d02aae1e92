#pragma once

/// @file
/// Options of all actions of `spjit cache`, and the actions that have files of their own.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/manual.hpp"

namespace spjit::cli {

/// Options that every action has.
struct CacheActionOptions {
  CacheOptions cache;
  bool json = false;
};

/// Adds an action, with its manual page, --cache and --json.
CLI::App* add_cache_action(CLI::App& cache, CacheActionOptions& options, const std::string& action);

/// Requirements of the directory of a cache.
enum class CacheMustExist {
  no,
  if_named,  ///< by --cache; the default one is made when the first kernel is compiled
  yes,
};

/// The cache that the options or the environment name. Throws CacheError, also if it has to be
/// there and is not.
[[nodiscard]] CacheStore open_store(const CacheActionOptions& options,
                                    CacheMustExist must_exist = CacheMustExist::if_named);

/// The keys that begin with one of the prefixes, all without any. Throws CacheError for a prefix
/// that no key has.
[[nodiscard]] std::vector<std::string> select_keys(const CacheStore& store,
                                                   const std::vector<std::string>& prefixes);

/// The entries whose keys begin with `prefix`. Throws CacheError if there is none.
[[nodiscard]] std::vector<CacheListing> find_entries(const CacheStore& store,
                                                     const std::string& prefix);

[[nodiscard]] Subcommand add_cache_export(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_import(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_push(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_pull(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_check_remote(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_stats(CLI::App& cache);
[[nodiscard]] Subcommand add_cache_why(CLI::App& cache, const ModelConverter& convert);

}  // namespace spjit::cli
