#pragma once

/// @file
/// A bundle on disk: kernels of a network in one file, from which processes map them.
///
///     bundle = header file* index footer
///     file   = content, zeros to a multiple of 4096 bytes     ; in the order of index.files
///
/// bundle_footer.hpp has the header and the footer, bundle_index.hpp the index, docs/use/bundle.md
/// what is checked when. To change the format, raise k_bundle_format, and renew the bytes in the
/// test BundleFileTest.HasTheFormatThatOlderProgramsRead.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/file_descriptor.hpp"
#include "runtime/bundle/bundle_footer.hpp"
#include "runtime/bundle/bundle_index.hpp"
#include "runtime/cache/cache_entry.hpp"

namespace spjit {

struct BundleTrust {
  /// Only a bundle that this key signed; none: signed or not.
  std::optional<Ed25519PublicKey> key = {};
  /// Opens also a file that other users can write to. It is copied, not mapped.
  bool any_owner = false;
};

/// An open bundle; copies share it. Thread-safe; a forked process may go on to use it. It is the
/// file that was opened, whatever becomes of its name.
class BundleFile {
 public:
  /// Checks everything but the content of files. Throws IoError of one line, which begins with the
  /// path: it cannot be opened, is damaged, is not signed by the key, or others can write to it.
  [[nodiscard]] static BundleFile open(const std::filesystem::path& path,
                                       const BundleTrust& trust = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] const BundleIndex& index() const noexcept;
  [[nodiscard]] const std::optional<BundleSignature>& signature() const noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept;

  /// The files of a kernel of the index, mapped where the cache would, and those very pages
  /// compared with their checksums; with their SHA-256 where a key was given. Throws IoError.
  [[nodiscard]] KernelFiles read(const BundleKernel& kernel) const;

  /// Reads all files and compares them with both. Throws IoError that names the first that is
  /// damaged.
  void verify() const;

 private:
  struct State;
  explicit BundleFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace spjit
