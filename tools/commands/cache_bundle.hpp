#pragma once

/// @file
/// Kernels out of a cache into a bundle that can be taken elsewhere, and into a cache again.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/bundle/bundle_file.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "runtime/cache/cache_store.hpp"

namespace spjit::cli {

struct CacheExport {
  struct LeftOut {
    std::string key;
    std::string problem;  ///< one line
  };

  std::int64_t entries = 0;
  std::vector<LeftOut> left_out;  ///< by key: what did not match its checksums, or has gone
};

/// Adds the kernels of `keys` to a bundle, by key, as layers without names: the same kernels give
/// the same bytes. Every checksum of a kernel is checked before it is written; what fails is left
/// out and reported. Changes nothing in the cache, not even times of last use. Holds one kernel in
/// memory. Throws IoError.
[[nodiscard]] CacheExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                                       BundleFileWriter& bundle);

struct CacheImport {
  std::int64_t imported = 0;
  std::int64_t already_there = 0;   ///< the cache had them; its own stay
  std::int64_t other_versions = 0;  ///< not for this version of spjit: skipped
  std::int64_t without_key = 0;     ///< nobody could look them up: skipped
  std::int64_t bytes = 0;           ///< of the files imported
};

/// Publishes the kernels of a bundle, each whole or not at all. Throws CacheError, and IoError for
/// the first one that is damaged, which also says how many were imported before it: these stay.
/// **The kernels of a bundle run as code of whoever uses the cache.**
[[nodiscard]] CacheImport import_cache(const CacheStore& store, const BundleFile& bundle);

}  // namespace spjit::cli
