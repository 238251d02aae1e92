#pragma once

/// @file
/// Bundles as files that get their names when they are whole.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/ed25519.hpp"
#include "base/file_bytes.hpp"
#include "runtime/bundle/bundle_index.hpp"
#include "runtime/cache/cache_store.hpp"

namespace spjit {

/// Writes a bundle; kernels, their order and the key decide all of its bytes. Holds no content in
/// memory. Not thread-safe.
class BundleFileWriter {
 public:
  /// Signed with `key` where one is given. Throws IoError if no file can be made there.
  explicit BundleFileWriter(const std::filesystem::path& path,
                            std::optional<Ed25519PrivateKey> key = {});

  /// Writes the files of a kernel, but those that a kernel before it has, too; `kernel.files` is
  /// made here. Throws InvalidArgument for a name, key or file name that is none and a kernel that
  /// is there; IoError.
  void add(BundleKernel kernel, std::span<const CacheFile> files);

  /// Whether the layer has a kernel of this key.
  [[nodiscard]] bool has(const BundleKernel& kernel) const {
    return names_.contains({kernel.layer, kernel.key});
  }
  [[nodiscard]] std::size_t kernels() const noexcept { return index_.kernels.size(); }

  /// Writes the index, waits for the disk, and gives the file its name; returns its bytes. What
  /// is called after it, or after what threw, throws InvalidArgument. Throws IoError,
  /// InvalidArgument for an index that is too large.
  std::int64_t finish();

 private:
  void require_open() const;
  [[nodiscard]] std::size_t blob_of(std::span<const std::byte> bytes);

  TemporaryFile file_;
  std::optional<Ed25519PrivateKey> key_;
  BundleIndex index_;
  bool is_open_ = true;
  std::map<std::string, std::size_t> blobs_;             ///< by SHA-256
  std::set<std::pair<std::string, std::string>> names_;  ///< layer and key
};

}  // namespace spjit
