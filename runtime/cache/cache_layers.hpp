#pragma once

/// @file
/// A cache to write to, over others that are only read.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"
#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cache/remote_cache.hpp"

namespace spjit {

/// Whether a server is asked, and told, too.
struct RemoteUse {
  bool is_dear = false;  ///< the kernel: one that takes seconds to compile
  bool is_off = false;   ///< not even for such a one
  Cancellation cancel = {};
};

/// As thread-safe as a CacheStore. What is found in a layer stays there: it is not copied, so that
/// processes and machines that share a layer also share its space.
class LayeredCache {
 public:
  /// `layers` are looked at in order, after `writable`, and have to be read-only. Without
  /// `writable` nothing can be published. `remote`, which may be null, publishes in `writable`.
  LayeredCache(std::optional<CacheStore> writable,
               std::vector<std::shared_ptr<const CacheLayer>> layers,
               std::shared_ptr<const RemoteCache> remote = nullptr);

  [[nodiscard]] bool can_publish() const noexcept { return writable_ != nullptr; }

  /// The first entry there is, as `CacheStore::lookup()`. The reason names everything on the way
  /// that was not taken, whether or not there is an entry. A server comes last, if it is to be
  /// asked; then this throws what the cancellation throws.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {},
                                   const RemoteUse& remote = {}) const;

  /// `CacheStore::publish()` in the writable cache; throws CacheError if there is none.
  PublishResult publish(std::string_view key, std::span<const CacheFile> files,
                        const nlohmann::json& kernel, const Cancellation& cancel = {}) const;

  /// Writes an entry of the writable cache to the server later, if it takes such a one. Returns
  /// what there is to report of earlier ones; or empty.
  [[nodiscard]] std::string push_later(std::string_view key, std::int64_t bytes,
                                       bool is_dear) const;

  /// All kernels of the places that can be listed.
  [[nodiscard]] std::vector<ListedKernel> kernels() const;

  /// Null if there is no server.
  [[nodiscard]] const RemoteCache* remote() const noexcept { return remote_.get(); }

  /// `CacheLayer::reject()` of the layer the entry came from, which has to be one of this cache's.
  [[nodiscard]] std::string reject(const CacheEntry& entry, std::string_view reason) const;

 private:
  std::shared_ptr<const CacheStore> writable_;
  std::vector<std::shared_ptr<const CacheLayer>> layers_;
  std::shared_ptr<const RemoteCache> remote_;
};

}  // namespace spjit
