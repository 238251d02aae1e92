#pragma once

/// @file
/// A cache to write to, over others that are only read.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/cache_store.hpp"

namespace spjit {

/// As thread-safe as a CacheStore. What is found in a layer stays there: it is not copied, so that
/// processes and machines that share a layer also share its space.
class LayeredCache {
 public:
  /// `layers` are looked at in order, after `writable`, and have to be read-only. Without
  /// `writable` nothing can be published.
  LayeredCache(std::optional<CacheStore> writable,
               std::vector<std::shared_ptr<const CacheLayer>> layers);

  [[nodiscard]] bool can_publish() const noexcept { return writable_ != nullptr; }

  /// The first entry there is, as `CacheStore::lookup()`. The reason names everything on the way
  /// that was not taken, whether or not there is an entry.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {}) const;

  /// `CacheStore::publish()` in the writable cache; throws CacheError if there is none.
  PublishResult publish(std::string_view key, std::span<const CacheFile> files,
                        const nlohmann::json& kernel, const Cancellation& cancel = {}) const;

  /// `CacheLayer::reject()` of the layer the entry came from, which has to be one of this cache's.
  [[nodiscard]] std::string reject(const CacheEntry& entry, std::string_view reason) const;

 private:
  std::shared_ptr<const CacheStore> writable_;
  std::vector<std::shared_ptr<const CacheLayer>> layers_;
};

}  // namespace spjit
