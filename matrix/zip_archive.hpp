#pragma once

/// @file
/// Zip archives in memory, through libzip.

#include <zip.h>

#include <cstddef>
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

  /// The contents of a file, stored or deflated, checked against its CRC. Throws IoError.
  [[nodiscard]] std::vector<std::byte> read(std::string_view file) const;

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
