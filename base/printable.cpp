#include "base/printable.hpp"

#include <cstdint>

namespace spjit {
namespace {

/// A character of UTF-8 text.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  ///< 0: the text does not begin with a character
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (too_long || surrogate || code > 0x10FFFF) return {};
  return {code, bytes};
}

bool is_between(std::uint32_t code, std::uint32_t first, std::uint32_t last) {
  return code >= first && code <= last;
}

bool is_shown(std::uint32_t code) {
  const bool control = code < 0x20 || is_between(code, 0x7F, 0x9F);
  const bool separator = is_between(code, 0x2028, 0x2029);
  const bool direction = code == 0x61C || is_between(code, 0x200E, 0x200F) ||
                         is_between(code, 0x202A, 0x202E) || is_between(code, 0x2066, 0x2069);
  return !control && !separator && !direction;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    if (next.bytes > 0 && is_shown(next.code)) {
      shown += text.substr(0, next.bytes);
    } else {
      shown += '?';
    }
    text.remove_prefix(std::max<std::size_t>(next.bytes, 1));
  }
  return shown;
}

}  // namespace spjit
