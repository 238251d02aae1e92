#include "runtime/cache/cache_layers.hpp"

#include <utility>

#include "spjit/error.hpp"

namespace spjit {

LayeredCache::LayeredCache(std::optional<CacheStore> writable,
                           std::vector<std::shared_ptr<const CacheLayer>> layers)
    : layers_(std::move(layers)) {
  if (writable) writable_ = std::make_shared<const CacheStore>(*std::move(writable));
}

CacheLookup LayeredCache::lookup(std::string_view key,
                                 std::span<const std::string_view> wanted) const {
  CacheLookup result;
  const auto look_in = [&](const std::shared_ptr<const CacheLayer>& layer) {
    CacheLookup found = layer->lookup(key, wanted);
    if (!found.miss_reason.empty()) {
      result.miss_reason += (result.miss_reason.empty() ? "" : "; ") + found.miss_reason;
    }
    result.entry = std::move(found.entry);
    if (result.entry) result.entry->origin = layer;
  };
  if (writable_) look_in(writable_);
  for (std::size_t i = 0; i < layers_.size() && !result.entry; ++i) look_in(layers_[i]);
  return result;
}

PublishResult LayeredCache::publish(std::string_view key, std::span<const CacheFile> files,
                                    const nlohmann::json& kernel,
                                    const Cancellation& cancel) const {
  if (!writable_) throw CacheError("there is no cache directory to publish in, only layers");
  return writable_->publish(key, files, kernel, cancel);
}

std::string LayeredCache::reject(const CacheEntry& entry, std::string_view reason) const {
  return entry.origin->reject(entry, reason);
}

}  // namespace spjit
