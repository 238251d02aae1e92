#pragma once

/// @file
/// Cache keys (SHA-256) and file checksums (XXH3).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

/// Names and values of a key's fields, for people: numbers as text, bytes and long texts as
/// checksum_hex().
using KeyFields = std::vector<std::pair<std::string, std::string>>;

/// SHA-256 over a record of named fields. Every field is hashed as
///     field = tag, length(name), name, length(value), value
/// with a one-byte tag for the kind of value and lengths as 64-bit little-endian integers, so two
/// different records never hash the same bytes. The order of fields counts. Integers and spans are
/// hashed as little-endian bytes. Move-only. Adding a field throws what `cancel` throws, which is
/// asked every 4 MiB.
class KeyBuilder {
 public:
  /// With `fields`, which has to outlive it, fields are listed there and not hashed.
  explicit KeyBuilder(Cancellation cancel = {}, KeyFields* fields = nullptr);
  KeyBuilder(KeyBuilder&&) noexcept;
  KeyBuilder& operator=(KeyBuilder&&) noexcept;
  ~KeyBuilder();

  KeyBuilder& field(std::string_view name, std::string_view value);
  KeyBuilder& field(std::string_view name, std::int64_t value);
  KeyBuilder& field(std::string_view name, std::span<const std::byte> value);
  /// Hashed as the signed integer of its bits.
  KeyBuilder& real(std::string_view name, float value);

  /// 64 lowercase hexadecimal digits of the fields so far; more may be added after.
  [[nodiscard]] std::string hex() const;

 private:
  struct Digest;
  void add(char tag, std::string_view name, std::span<const std::byte> value);

  std::unique_ptr<Digest> digest_;
  Cancellation cancel_;
  KeyFields* fields_;
};

using Sha256 = std::array<std::byte, 32>;

/// SHA-256 of `bytes`: finds what somebody changed, where the digest itself is trusted.
[[nodiscard]] Sha256 sha256(std::span<const std::byte> bytes);

/// Two lowercase hexadecimal digits a byte.
[[nodiscard]] std::string hex_text(std::span<const std::byte> bytes);

/// Whether `text` is `digits` lowercase hexadecimal digits.
[[nodiscard]] bool is_hex_text(std::string_view text, std::size_t digits) noexcept;

/// XXH3-128 of `bytes`, canonical (big-endian) form: 32 lowercase hexadecimal digits. Finds torn
/// and rotten files at memory speed; no defence against an attacker.
[[nodiscard]] std::string checksum_hex(std::span<const std::byte> bytes);

}  // namespace spjit
