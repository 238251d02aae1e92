#include "runtime/cache/cache_layers.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {

LayeredCache::LayeredCache(std::optional<CacheStore> writable,
                           std::vector<std::shared_ptr<const CacheLayer>> layers,
                           std::shared_ptr<const RemoteCache> remote)
    : layers_(std::move(layers)), remote_(std::move(remote)) {
  if (writable) writable_ = std::make_shared<const CacheStore>(*std::move(writable));
}

CacheLookup LayeredCache::lookup(std::string_view key, std::span<const std::string_view> wanted,
                                 const RemoteUse& remote) const {
  CacheLookup result;
  const auto take = [&](CacheLookup found, std::shared_ptr<const CacheLayer> layer,
                        CachePlace place) {
    if (!found.miss_reason.empty()) {
      result.miss_reason += (result.miss_reason.empty() ? "" : "; ") + found.miss_reason;
    }
    result.entry = std::move(found.entry);
    result.place = place;
    if (result.entry) result.entry->origin = std::move(layer);
  };
  if (writable_) take(writable_->lookup(key, wanted), writable_, CachePlace::directory);
  for (std::size_t i = 0; i < layers_.size() && !result.entry; ++i) {
    take(layers_[i]->lookup(key, wanted), layers_[i], CachePlace::layer);
  }
  if (!result.entry && remote_ && !remote.is_off && remote_->takes(remote.is_dear)) {
    take(remote_->lookup(key, wanted, remote.cancel), remote_, CachePlace::remote);
  }
  return result;
}

PublishResult LayeredCache::publish(std::string_view key, std::span<const CacheFile> files,
                                    const nlohmann::json& kernel,
                                    const Cancellation& cancel) const {
  if (!writable_) throw CacheError("there is no cache directory to publish in, only layers");
  return writable_->publish(key, files, kernel, cancel);
}

std::string LayeredCache::push_later(std::string_view key, std::int64_t bytes, bool is_dear) const {
  if (!remote_ || !remote_->takes(is_dear)) return {};
  remote_->push_later(key, bytes);
  return remote_->take_reports();
}

std::vector<ListedKernel> LayeredCache::kernels() const {
  std::vector<ListedKernel> all;
  const auto take = [&](const CacheLayer& layer) {
    try {
      std::ranges::move(layer.kernels(), std::back_inserter(all));
    } catch (const CacheError&) {
      return;
    }
  };
  if (writable_) take(*writable_);
  for (const auto& layer : layers_) take(*layer);
  return all;
}

std::string LayeredCache::reject(const CacheEntry& entry, std::string_view reason) const {
  return entry.origin->reject(entry, reason);
}

}  // namespace spjit
