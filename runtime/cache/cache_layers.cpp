#include "runtime/cache/cache_layers.hpp"

#include <utility>

#include "spjit/error.hpp"

namespace spjit {

LayeredCache::LayeredCache(std::optional<CacheStore> writable, std::vector<CacheLayer> layers)
    : writable_(std::move(writable)), layers_(std::move(layers)) {}

CacheLookup LayeredCache::lookup(std::string_view key,
                                 std::span<const std::string_view> wanted) const {
  std::string reasons;
  const auto look_in = [&](const auto& layer) {
    CacheLookup found = layer.lookup(key, wanted);
    if (!found.miss_reason.empty()) reasons += (reasons.empty() ? "" : "; ") + found.miss_reason;
    return std::move(found.entry);
  };
  std::optional<CacheEntry> entry;
  if (writable_) entry = look_in(*writable_);
  for (std::size_t i = 0; i < layers_.size() && !entry; ++i) {
    entry = std::visit(look_in, layers_[i]);
  }
  return {.entry = std::move(entry), .miss_reason = std::move(reasons)};
}

PublishResult LayeredCache::publish(std::string_view key, std::span<const CacheFile> files,
                                    const nlohmann::json& kernel,
                                    const Cancellation& cancel) const {
  if (!writable_) throw CacheError("there is no cache directory to publish in, only layers");
  return writable_->publish(key, files, kernel, cancel);
}

std::string LayeredCache::reject(const CacheEntry& entry, std::string_view reason) const {
  if (writable_ && writable_->root() == entry.root) return writable_->reject(entry, reason);
  for (const CacheLayer& layer : layers_) {
    const auto reject_in = [&](const auto& of) -> std::optional<std::string> {
      if (of.root() != entry.root) return std::nullopt;
      return of.reject(entry, reason);
    };
    if (const auto report = std::visit(reject_in, layer)) return *report;
  }
  return {};
}

}  // namespace spjit
