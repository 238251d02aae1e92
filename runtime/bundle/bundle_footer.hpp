#pragma once

/// @file
/// The fixed parts of a bundle: its first page and its last 192 bytes.
///
///     header = %x89 "SPJIT" CR LF %x1A LF 6*%x00 format, zeros to 4096 bytes
///     footer = index_offset index_bytes index_sha256 scheme key signature format end 12*%x00
///     scheme = 0 / 1                       ; not signed, then key and signature are zeros; Ed25519
///     end    = "SPJIT end of bundle" LF
///
/// Numbers are 64-bit, little-endian. index_sha256 and key have 32 bytes, signature 64.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ed25519.hpp"
#include "base/hash.hpp"

namespace spjit {

inline constexpr std::size_t k_bundle_footer_bytes = 192;

struct BundleSignature {
  Ed25519PublicKey key{};  ///< the signer's
  Ed25519Signature signature{};
};

struct BundleFooter {
  std::int64_t index_offset = 0;
  std::int64_t index_bytes = 0;
  Sha256 index_digest{};
  std::optional<BundleSignature> signature = {};
};

using BundleFooterBytes = std::array<std::byte, k_bundle_footer_bytes>;

/// The first page: of every bundle of a format the same bytes.
[[nodiscard]] std::vector<std::byte> bundle_header();

[[nodiscard]] BundleFooterBytes write_bundle_footer(const BundleFooter& footer);

/// The bytes that are signed: the footer with zeros for the signature. The index's digest, and with
/// it the digests of all files, are part of it.
[[nodiscard]] BundleFooterBytes signed_message(BundleFooter footer);

/// The last bytes of a bundle of `bundle_bytes`. Throws Error if they are no footer, or not that of
/// a file of this size.
[[nodiscard]] BundleFooter parse_bundle_footer(std::span<const std::byte, k_bundle_footer_bytes>,
                                               std::int64_t bundle_bytes);

}  // namespace spjit
