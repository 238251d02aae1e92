#pragma once

/// @file
/// Ed25519 signatures (RFC 8032) by OpenSSL's libcrypto, 1.1.1 or later, which is opened when it is
/// first needed: who neither signs nor checks a signature needs none. Linked statically it would be
/// most of a small program.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace spjit {

using Ed25519PublicKey = std::array<std::byte, 32>;
using Ed25519Signature = std::array<std::byte, 64>;

/// A private key. Copies share it. All members throw NotSupported where there is no libcrypto.
class Ed25519PrivateKey {
 public:
  /// The key in PEM text without a pass phrase, as `openssl genpkey -algorithm ed25519` writes it.
  /// Throws InvalidArgument for anything else.
  [[nodiscard]] static Ed25519PrivateKey parse(std::string_view pem);

  [[nodiscard]] const Ed25519PublicKey& public_key() const noexcept { return public_key_; }
  /// The signature of a message. It depends on nothing but key and message.
  [[nodiscard]] Ed25519Signature sign(std::span<const std::byte> message) const;

 private:
  Ed25519PrivateKey() = default;

  std::shared_ptr<void> key_;  // EVP_PKEY
  Ed25519PublicKey public_key_{};
};

/// The key in PEM text, as `openssl pkey -pubout` writes it. Throws InvalidArgument for anything
/// else.
[[nodiscard]] Ed25519PublicKey parse_ed25519_public_key(std::string_view pem);

/// Whether `key` signed the message.
[[nodiscard]] bool verify_ed25519(const Ed25519PublicKey& key, std::span<const std::byte> message,
                                  const Ed25519Signature& signature);

}  // namespace spjit
