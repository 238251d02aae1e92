#include "runtime/bundle/bundle_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "spjit/error.hpp"

namespace spjit {

BundleLayer::BundleLayer(BundleFile file, std::string spjit_version)
    : file_(std::move(file)),
      spjit_version_(std::move(spjit_version)),
      reports_(std::make_shared<CacheReports>()) {
  const std::vector<BundleKernel>& kernels = file_.index().kernels;
  // Layers of one key have the same kernel: the first of them does.
  for (std::size_t i = 0; i < kernels.size(); ++i) kernels_.emplace(kernels[i].key, i);
}

CacheEntry BundleLayer::read(const BundleKernel& kernel,
                             std::span<const std::string_view> wanted) const {
  if (kernel.spjit != spjit_version_) {
    throw IoError(
        fmt::format("was compiled by spjit {}; this is {}", kernel.spjit, spjit_version_));
  }
  CacheEntry entry{.record = {.spjit_version = kernel.spjit,
                              .key = kernel.key,
                              .created = {},
                              .files = {},
                              .kernel = kernel.record},
                   .files = {},
                   .root = root(),
                   .directory = {}};
  BundleKernel part = kernel;
  std::erase_if(part.files, [&](const BundleFileName& file) {
    return !wanted.empty() && std::ranges::find(wanted, file.name) == wanted.end();
  });
  for (const BundleFileName& file : kernel.files) {
    const BundleBlob& blob = file_.index().blobs[file.blob];
    entry.record.files.push_back(
        {.name = file.name, .bytes = blob.bytes, .checksum = blob.checksum});
  }
  entry.files = file_.read(part);
  return entry;
}

CacheLookup BundleLayer::lookup(std::string_view key,
                                std::span<const std::string_view> wanted) const {
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) return {};
  std::string problem;
  try {
    return {.entry = read(file_.index().kernels[found->second], wanted), .miss_reason = {}};
  } catch (const IoError& error) {
    problem = error.what();
  } catch (const std::bad_alloc& error) {
    // It says nothing about the entry.
    return {.entry = std::nullopt, .miss_reason = describe(key, error.what())};
  }
  return {.entry = std::nullopt,
          .miss_reason = reports_->first(key) ? describe(key, problem) : std::string()};
}

std::vector<ListedKernel> BundleLayer::kernels() const {
  std::vector<ListedKernel> listed;
  listed.reserve(file_.index().kernels.size());
  for (const BundleKernel& kernel : file_.index().kernels) {
    listed.push_back({.key = kernel.key,
                      .layer = kernel.layer,
                      .where = root().string(),
                      .record = kernel.record});
  }
  return listed;
}

std::string BundleLayer::reject(const CacheEntry& entry, std::string_view reason) const {
  return reports_->first(entry.record.key) ? describe(entry.record.key, reason) : std::string();
}

std::string BundleLayer::describe(std::string_view key, std::string_view reason) const {
  return fmt::format("kernel {} in the bundle '{}': {}", key, root().native(), reason);
}

}  // namespace spjit
