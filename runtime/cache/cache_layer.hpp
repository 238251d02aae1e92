#pragma once

/// @file
/// The interface of a place that holds compiled kernels.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/cache/cache_entry.hpp"

namespace spjit {

struct CacheLookup {
  std::optional<CacheEntry> entry;
  /// The defect of an entry that was found but not taken, one line; empty if there simply is none,
  /// or if this was said before. Of a LayeredCache it can stand beside an entry.
  std::string miss_reason;
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

 protected:
  CacheLayer() = default;
  CacheLayer(const CacheLayer&) = default;
  CacheLayer(CacheLayer&&) = default;
  CacheLayer& operator=(const CacheLayer&) = default;
  CacheLayer& operator=(CacheLayer&&) = default;
};

}  // namespace spjit
