#include "runtime/bundle/bundle_footer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/arithmetic.hpp"
#include "runtime/bundle/bundle_index.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// A byte over 127, both line ends and the end of a DOS text: what is sent as text shows.
constexpr std::string_view k_header_magic = "\x89SPJIT\r\n\x1a\n";
constexpr std::string_view k_footer_magic = "SPJIT end of bundle\n";
constexpr std::size_t k_version_at = 16;  // of the header

// Where the members of a footer lie.
constexpr std::size_t k_index_offset_at = 0;
constexpr std::size_t k_index_bytes_at = 8;
constexpr std::size_t k_digest_at = 16;
constexpr std::size_t k_scheme_at = 48;
constexpr std::size_t k_key_at = 56;
constexpr std::size_t k_signature_at = 88;
constexpr std::size_t k_footer_format_at = 152;
constexpr std::size_t k_footer_magic_at = 160;

constexpr std::int64_t k_unsigned = 0;
constexpr std::int64_t k_ed25519 = 1;

void put(std::span<std::byte> into, std::size_t at, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, into.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Little-endian.
void put(std::span<std::byte> into, std::size_t at, std::int64_t value) {
  put(into, at, std::as_bytes(std::span(&value, 1)));
}

std::int64_t integer_at(std::span<const std::byte> bytes, std::size_t at) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <std::size_t Size>
void take(std::span<const std::byte> bytes, std::size_t at, std::array<std::byte, Size>& into) {
  std::memcpy(into.data(), bytes.data() + at, Size);
}

[[noreturn]] void refuse_footer() {
  throw Error("has no end of a bundle: it was cut short, or is another kind of file");
}

}  // namespace

std::vector<std::byte> bundle_header() {
  std::vector<std::byte> page(to_size(k_bundle_page));
  put(page, 0, std::as_bytes(std::span(k_header_magic)));
  put(page, k_version_at, k_bundle_format);
  return page;
}

BundleFooterBytes write_bundle_footer(const BundleFooter& footer) {
  BundleFooterBytes bytes{};
  put(bytes, k_index_offset_at, footer.index_offset);
  put(bytes, k_index_bytes_at, footer.index_bytes);
  put(bytes, k_digest_at, std::span<const std::byte>(footer.index_digest));
  put(bytes, k_scheme_at, footer.signature ? k_ed25519 : k_unsigned);
  if (footer.signature) {
    put(bytes, k_key_at, std::span<const std::byte>(footer.signature->key));
    put(bytes, k_signature_at, std::span<const std::byte>(footer.signature->signature));
  }
  put(bytes, k_footer_format_at, k_bundle_format);
  put(bytes, k_footer_magic_at, std::as_bytes(std::span(k_footer_magic)));
  return bytes;
}

BundleFooterBytes signed_message(BundleFooter footer) {
  if (footer.signature) footer.signature->signature = {};
  return write_bundle_footer(footer);
}

BundleFooter parse_bundle_footer(std::span<const std::byte, k_bundle_footer_bytes> bytes,
                                 std::int64_t bundle_bytes) {
  BundleFooter footer;
  footer.index_offset = integer_at(bytes, k_index_offset_at);
  footer.index_bytes = integer_at(bytes, k_index_bytes_at);
  take(bytes, k_digest_at, footer.index_digest);
  if (integer_at(bytes, k_scheme_at) == k_ed25519) {
    BundleSignature& signature = footer.signature.emplace();
    take(bytes, k_key_at, signature.key);
    take(bytes, k_signature_at, signature.signature);
  }
  // The members are all that a footer has: written again it is the same.
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()) + k_footer_magic_at,
                               k_footer_magic.size());
  if (magic != k_footer_magic) refuse_footer();
  const std::int64_t format = integer_at(bytes, k_footer_format_at);
  if (format != k_bundle_format) {
    throw Error(fmt::format("is a bundle of format {}; this spjit reads format {}", format,
                            k_bundle_format));
  }
  if (!std::ranges::equal(write_bundle_footer(footer), bytes)) {
    throw Error("has a damaged footer");
  }
  const std::int64_t most = bundle_bytes - std::int64_t{k_bundle_footer_bytes};
  if (footer.index_offset < k_bundle_page || footer.index_offset % k_bundle_page != 0 ||
      footer.index_offset > most || footer.index_bytes != most - footer.index_offset) {
    throw Error(fmt::format("has {} bytes, but its footer says: {} of index from {} on",
                            bundle_bytes, footer.index_bytes, footer.index_offset));
  }
  if (footer.index_bytes > k_most_index_bytes) {
    throw Error(fmt::format("has an index of {} bytes; expected at most {}", footer.index_bytes,
                            k_most_index_bytes));
  }
  return footer;
}

}  // namespace spjit
