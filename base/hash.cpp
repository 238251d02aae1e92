// OpenSSL's EVP functions, for which it marks these as deprecated, put all its ciphers and its
// configuration into whoever links it statically: megabytes for one hash.
#define OPENSSL_SUPPRESS_DEPRECATED  // NOLINT(readability-identifier-naming): theirs

#include "base/hash.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

namespace spjit {
namespace {

static_assert(std::endian::native == std::endian::little,
              "keys and checksums are defined over little-endian bytes");

}  // namespace

static_assert(std::tuple_size_v<Sha256> == SHA256_DIGEST_LENGTH);

struct KeyBuilder::Digest {
  SHA256_CTX context;

  // These functions of OpenSSL cannot fail: they always return 1.
  Digest() { SHA256_Init(&context); }
  void update(const void* data, std::size_t size) { SHA256_Update(&context, data, size); }
  // Finishing consumes a context, and more may follow.
  [[nodiscard]] Sha256 finish() const {
    SHA256_CTX copy = context;
    Sha256 digest{};
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &copy);
    return digest;
  }
};

KeyBuilder::KeyBuilder(Cancellation cancel, KeyFields* fields)
    : digest_(std::make_unique<Digest>()), cancel_(std::move(cancel)), fields_(fields) {}

KeyBuilder::KeyBuilder(KeyBuilder&&) noexcept = default;
KeyBuilder& KeyBuilder::operator=(KeyBuilder&&) noexcept = default;
KeyBuilder::~KeyBuilder() = default;

KeyBuilder& KeyBuilder::field(std::string_view name, std::string_view value) {
  constexpr std::size_t k_longest_listed = 200;
  if (fields_ == nullptr) {
    add('s', name, std::as_bytes(std::span(value)));
  } else if (value.size() <= k_longest_listed) {
    fields_->emplace_back(name, value);
  } else {
    fields_->emplace_back(name, checksum_hex(std::as_bytes(std::span(value))));
  }
  return *this;
}

KeyBuilder& KeyBuilder::field(std::string_view name, std::int64_t value) {
  if (fields_ == nullptr) {
    add('i', name, std::as_bytes(std::span(&value, 1)));
  } else {
    fields_->emplace_back(name, std::to_string(value));
  }
  return *this;
}

KeyBuilder& KeyBuilder::field(std::string_view name, std::span<const std::byte> value) {
  if (fields_ == nullptr) {
    add('b', name, value);
  } else {
    fields_->emplace_back(name, checksum_hex(value));
  }
  return *this;
}

KeyBuilder& KeyBuilder::real(std::string_view name, float value) {
  if (fields_ == nullptr) return field(name, std::int64_t{std::bit_cast<std::int32_t>(value)});
  fields_->emplace_back(name, fmt::format("{}", value));
  return *this;
}

void KeyBuilder::add(char tag, std::string_view name, std::span<const std::byte> value) {
  const std::uint64_t name_size = name.size();
  const std::uint64_t value_size = value.size();
  digest_->update(&tag, 1);
  digest_->update(&name_size, sizeof(name_size));
  digest_->update(name.data(), name.size());
  digest_->update(&value_size, sizeof(value_size));
  constexpr std::size_t k_piece = std::size_t{4} << 20;  // about 10 ms without instructions for it
  for (; !value.empty(); value = value.subspan(std::min(k_piece, value.size()))) {
    cancel_.check();
    digest_->update(value.data(), std::min(k_piece, value.size()));
  }
}

std::string KeyBuilder::hex() const { return hex_text(digest_->finish()); }

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256 digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text.push_back(digits[std::to_integer<std::size_t>(byte >> 4U)]);
    text.push_back(digits[std::to_integer<std::size_t>(byte & std::byte{0xF})]);
  }
  return text;
}

bool is_hex_text(std::string_view text, std::size_t digits) noexcept {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string checksum_hex(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return hex_text(std::as_bytes(std::span(canonical.digest)));
}

}  // namespace spjit
