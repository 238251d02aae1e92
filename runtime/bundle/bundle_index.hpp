#pragma once

/// @file
/// The index of a bundle: what kernels are in it and where their files lie. It is one JSON object,
/// UTF-8:
///
///     index  = { "format": 1, "files": [file...], "kernels": [kernel...] }
///     file   = { "offset", "bytes", "checksum", "sha256" }           ; checksum: XXH3-128
///     kernel = { "layer", "key", "spjit", "files": [{ "name", "file" }...], "record" }
///
/// `file` of a kernel is a place in index.files; kernels may share one. `name` and `record` are
/// those of a cache (docs/design/cache-format.md). record.problem.a.hash is the XXH3-128 of the
/// checksums, as text, of row offsets (64 bits), columns (32 bits) and, unless a run brings them,
/// values.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"

namespace spjit {

inline constexpr std::int64_t k_bundle_format = 1;
/// Where the header ends, and what files and the index begin at a multiple of: a page on x86-64.
inline constexpr std::int64_t k_bundle_page = 4096;
/// More is refused before it is parsed: JSON takes up to 64 times as much memory.
inline constexpr std::int64_t k_most_index_bytes = std::int64_t{64} << 20;
/// No file is larger, and sums of sizes cannot overflow.
inline constexpr std::int64_t k_most_blob_bytes = std::int64_t{1} << 48;
inline constexpr std::size_t k_longest_layer_name = 1000;  ///< bytes

/// A file's content, which several kernels may have.
struct BundleBlob {
  std::int64_t offset = 0;  ///< from the beginning of the bundle; a multiple of k_bundle_page
  std::int64_t bytes = 0;
  std::string checksum;  ///< `checksum_hex()`
  std::string sha256;    ///< `hex_text(sha256())`

  /// Where the next one begins.
  [[nodiscard]] std::int64_t end() const noexcept;
};

struct BundleFileName {
  std::string name;  ///< `is_cache_file_name()`
  std::size_t blob;  ///< which of BundleIndex::blobs
};

struct BundleKernel {
  std::string layer;  ///< of the network; may be empty
  std::string key;    ///< of a cache; may be empty
  std::string spjit;  ///< the version that compiled it
  std::vector<BundleFileName> files = {};
  nlohmann::json record = {};  ///< as in a cache, opaque here
};

struct BundleIndex {
  std::vector<BundleBlob> blobs = {};  ///< by offset; without gaps but for the padding to pages
  std::vector<BundleKernel> kernels = {};

  /// Where the index itself begins.
  [[nodiscard]] std::int64_t payload_end() const noexcept;
};

/// Throws InvalidArgument if the name of the layer or the record is no UTF-8: an index cannot have
/// it.
void check_bundle_text(const BundleKernel& kernel);

/// The text of an index, which decides all of it. Throws InvalidArgument for text that is no UTF-8.
[[nodiscard]] std::string write_bundle_index(const BundleIndex& index);

/// Throws Error of one line unless it is an index of this format. Its files must follow one another
/// from the header on, as their sizes say, and the last one must end where the index begins. Each
/// must be of some kernel, and no kernel of one layer and key may be there twice.
[[nodiscard]] BundleIndex parse_bundle_index(std::string_view text, std::int64_t index_offset);

}  // namespace spjit
