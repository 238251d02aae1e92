#pragma once

/// @file
/// The interface of a place that holds compiled kernels.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_entry.hpp"

namespace spjit {

/// The kind of place that an entry came from.
enum class CachePlace : std::uint8_t {
  directory,  ///< the one that is written to, or a single layer by itself
  layer,      ///< one that is only read
  remote,     ///< a server, just now
};

struct CacheLookup {
  std::optional<CacheEntry> entry;
  /// The defect of an entry that was found but not taken, one line; empty if there simply is none,
  /// or if this was said before. Of a LayeredCache it can stand beside an entry.
  std::string miss_reason;
  CachePlace place = CachePlace::directory;  ///< of the entry
};

/// A kernel as a place lists it.
struct ListedKernel {
  std::string key;
  std::string layer;      ///< its name in a bundle; may be empty
  std::string where;      ///< the cache or bundle, for people
  nlohmann::json record;  ///< of the kernel
};

/// A directory, a bundle, or another place in which kernels are found by key. Members are safe to
/// call from any number of threads at once.
class CacheLayer {
 public:
  virtual ~CacheLayer() = default;

  /// The entry of `key`, with the files named in `wanted` (empty: all of them) read and verified.
  /// An entry that is damaged, of another version of spjit or not to be trusted is a miss with a
  /// reason. Throws nothing for it.
  [[nodiscard]] virtual CacheLookup lookup(std::string_view key,
                                           std::span<const std::string_view> wanted) const = 0;

  /// The content of an entry of this layer is of no use, for the reason given. Returns what has to
  /// be reported, as `CacheLookup::miss_reason`.
  [[nodiscard]] virtual std::string reject(const CacheEntry& entry,
                                           std::string_view reason) const = 0;

  /// All kernels, also those of other versions, without reading them: none of a server, which lists
  /// none. Damaged ones are left out. Throws CacheError for a directory that cannot be listed.
  [[nodiscard]] virtual std::vector<ListedKernel> kernels() const = 0;

 protected:
  CacheLayer() = default;
  CacheLayer(const CacheLayer&) = default;
  CacheLayer(CacheLayer&&) = default;
  CacheLayer& operator=(const CacheLayer&) = default;
  CacheLayer& operator=(CacheLayer&&) = default;
};

}  // namespace spjit
