#pragma once

/// @file
/// Tar archives byte by byte, so that tests can write what no honest program would.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace spjit::testing_support {

struct TarFile {
  std::string path;
  std::string content{};
  char type = '0';                              ///< '1' hard link, '2' symbolic link, ...
  std::string link{};                           ///< what a link leads to
  std::optional<std::int64_t> claimed_bytes{};  ///< what the header says instead of the truth
};

inline constexpr std::size_t k_tar_block = 512;

inline void put(std::string& header, std::size_t offset, const std::string& text) {
  header.replace(offset, text.size(), text);
}

/// The checksum of a header, put where it belongs.
inline void seal(std::string& header) {
  put(header, 148, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(header, 148, fmt::format("{:06o}", sum) + std::string(1, '\0') + " ");
}

/// POSIX.1-1988 (ustar): name at 0 (100), mode 100, size 124 (12), checksum 148, type 156, link 157
/// (100), magic 257, prefix 345 (155).
inline std::string tar_header(const TarFile& file) {
  std::string header(k_tar_block, '\0');
  const std::size_t split = file.path.size() > 100 ? file.path.rfind('/') : std::string::npos;
  if (split == std::string::npos) {
    put(header, 0, file.path);
  } else {
    put(header, 0, file.path.substr(split + 1));
    put(header, 345, file.path.substr(0, split));
  }
  put(header, 100, "0000600");
  put(header, 108, "0000000");
  put(header, 116, "0000000");
  const auto bytes = static_cast<std::int64_t>(file.content.size());
  put(header, 124, fmt::format("{:011o}", file.claimed_bytes.value_or(bytes)));
  put(header, 136, "00000000000");
  header[156] = file.type;
  put(header, 157, file.link);
  put(header, 257, std::string("ustar\0", 6) + "00");
  seal(header);
  return header;
}

/// Header and content, padded to blocks.
inline std::string tar_member(const TarFile& file) {
  const std::size_t padding = (k_tar_block - file.content.size() % k_tar_block) % k_tar_block;
  return tar_header(file) + file.content + std::string(padding, '\0');
}

inline std::string tar_of(const std::vector<TarFile>& files) {
  std::string tar;
  for (const TarFile& file : files) tar += tar_member(file);
  return tar + std::string(2 * k_tar_block, '\0');
}

/// A line of a pax header: its own length, "key=value".
inline std::string pax_line(const std::string& text) {
  std::size_t length = text.size() + 3;
  while (std::to_string(length).size() + text.size() + 2 != length) ++length;
  return fmt::format("{} {}\n", length, text);
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Reads what is in memory, which must outlive it, in pieces of at most `piece` bytes: a ReadBytes.
inline auto reading(std::span<const std::byte> bytes, std::size_t piece = std::size_t{1} << 20) {
  return [rest = bytes, piece](std::span<std::byte> into) mutable {
    const std::size_t count = std::min({piece, into.size(), rest.size()});
    std::copy_n(rest.begin(), count, into.begin());
    rest = rest.subspan(count);
    return count;
  };
}

}  // namespace spjit::testing_support
