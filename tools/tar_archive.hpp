#pragma once

/// @file
/// Tar archives of plain files, in a stream, through libarchive: written in one way only, and read
/// with suspicion.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct archive;  // libarchive's

namespace spjit::cli {

/// Fills the span from its beginning and says with how many bytes; 0 only at the end. May throw.
using ReadBytes = std::function<std::size_t(std::span<std::byte>)>;

/// Takes the next bytes. May throw.
using WriteBytes = std::function<void(std::span<const std::byte>)>;

struct TarMember {
  std::string path;  ///< as it is in the archive, whatever that is
  bool is_directory = false;
  std::int64_t bytes = 0;  ///< what its header says
};

/// Reads tar archives (ustar, pax, GNU) that are not compressed. Takes only plain files and
/// directories: links, devices, sparse files and whatever else tar knows are errors. Nothing is
/// ever written to a disk. Errors are IoErrors that name the member; what `read` throws passes
/// through. Any error is final.
class TarReader {
 public:
  /// Reads at most `most_bytes` in all: more is an error.
  TarReader(ReadBytes read, std::int64_t most_bytes);
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;
  ~TarReader();

  /// The next member; nothing at the end, which is an error unless it is tar's end mark with
  /// nothing but zeros after it.
  [[nodiscard]] std::optional<TarMember> next();

  /// All of the member that `next()` gave last; to be asked for once. Memory is used for what the
  /// archive really has, not for what a header claims.
  [[nodiscard]] std::vector<std::byte> content();

 private:
  struct Source;

  void require_clean_end();
  [[noreturn]] void fail() const;

  std::unique_ptr<Source> source_;
  archive* archive_;
  TarMember member_;
};

/// Writes ustar, the oldest format that every tar reads: the same files give the same bytes. Errors
/// are IoErrors; what `write` throws passes through. Any error is final.
class TarWriter {
 public:
  explicit TarWriter(WriteBytes write);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter();

  /// A plain file of mode 0600, owned by nobody in particular, of 1970.
  void add(const std::string& path, std::span<const std::byte> bytes);

  /// Writes the end mark: without it the archive is cut short.
  void finish();

 private:
  struct Sink;

  void require(bool success, const std::string& path) const;

  std::unique_ptr<Sink> sink_;
  archive* archive_;
};

}  // namespace spjit::cli
