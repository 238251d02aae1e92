#pragma once

/// @file
/// Zip archives in memory, through libzip.

#include <zip.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "matrix/npy_header.hpp"

namespace spjit {

struct DiscardZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
/// Gives an archive up on destruction, without writing.
using ZipHandle = std::unique_ptr<zip_t, DiscardZip>;

/// An archive to read from. Not thread-safe.
class ZipArchive {
 public:
  /// `bytes` must outlive the archive; `name` is what errors call it. Throws IoError.
  ZipArchive(Bytes bytes, std::string_view name);

  /// The names of its files, in the archive's order.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool contains(std::string_view file) const;

  /// Throws IoError for a file of so many bytes in all that begins with `head` and is not wanted.
  using CheckHead = std::function<void(Bytes head, std::size_t bytes)>;
  static constexpr std::size_t k_head_bytes = std::size_t{1} << 20;

  /// The contents of a file, stored or deflated, checked against its CRC. `check` sees the first
  /// k_head_bytes, or all if there are fewer, before more is unpacked. Throws IoError, also for
  /// more than the machine's memory.
  [[nodiscard]] std::vector<std::byte> read(std::string_view file,
                                            const CheckHead& check = {}) const;

 private:
  std::string name_;
  std::size_t archive_bytes_;
  ZipHandle zip_;
  std::vector<std::string> names_;
};

/// One file of an archive to be written.
struct ZipMember {
  std::string name;
  std::vector<std::byte> contents;
};

/// The bytes of an archive; the same members give the same bytes. Throws IoError, beginning with
/// `name`.
[[nodiscard]] std::vector<std::byte> make_zip(const std::vector<ZipMember>& members, bool compress,
                                              std::string_view name);

}  // namespace spjit
