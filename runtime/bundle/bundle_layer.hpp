#pragma once

/// @file
/// A bundle as a layer of a cache: its kernels by key.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/bundle/bundle_file.hpp"
#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/cache_reports.hpp"

namespace spjit {

/// As a CacheStore that is only read. Copies share the open file. Thread-safe.
class BundleLayer final : public CacheLayer {
 public:
  /// Kernels of another version of spjit than `spjit_version` are not taken.
  BundleLayer(BundleFile file, std::string spjit_version);

  /// The file's path: of entries that are found the root.
  [[nodiscard]] const std::filesystem::path& root() const noexcept { return file_.path(); }

  /// As `CacheStore::lookup()`.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {}) const override;

  /// As `CacheStore::reject()`: what to say of it, once for each entry.
  [[nodiscard]] std::string reject(const CacheEntry& entry, std::string_view reason) const override;

  [[nodiscard]] std::vector<ListedKernel> kernels() const override;

 private:
  [[nodiscard]] CacheEntry read(const BundleKernel& kernel,
                                std::span<const std::string_view> wanted) const;
  [[nodiscard]] std::string describe(std::string_view key, std::string_view reason) const;

  BundleFile file_;
  std::string spjit_version_;
  std::map<std::string, std::size_t, std::less<>> kernels_;  ///< places in the index, by key
  std::shared_ptr<CacheReports> reports_;
};

}  // namespace spjit
