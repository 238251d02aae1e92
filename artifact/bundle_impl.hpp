#pragma once

/// @file
/// The members of a Bundle.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/ed25519.hpp"
#include "runtime/bundle/bundle_file.hpp"
#include "spjit/bundle.hpp"

namespace spjit {

/// Immutable.
class Bundle::Impl {
 public:
  /// Throws IoError for a kernel whose record does not say what it is of.
  explicit Impl(BundleFile file_in);

  /// Throws InvalidArgument.
  [[nodiscard]] const BundleKernel& kernel(std::size_t entry) const;

  BundleFile file;
  std::vector<BundleEntry> entries;  ///< as the index has them
};

/// Keys that are given as PEM text or as the path of a file that has it; none for empty text. Throw
/// IoError, InvalidArgument that names the file, NotSupported.
[[nodiscard]] std::optional<Ed25519PublicKey> read_public_key(const std::string& text_or_path);
[[nodiscard]] std::optional<Ed25519PrivateKey> read_private_key(const std::string& text_or_path);

}  // namespace spjit
