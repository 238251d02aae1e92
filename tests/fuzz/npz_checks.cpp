#include "tests/fuzz/npz_checks.hpp"

#include <algorithm>
#include <vector>

#include "matrix/npy_reader.hpp"
#include "matrix/readers.hpp"
#include "matrix/writers.hpp"
#include "matrix/zip_archive.hpp"
#include "tests/fuzz/matrix_checks.hpp"

namespace spjit::fuzz {
namespace {

constexpr Refusal k_refusal = {"x.npz", false};
constexpr std::size_t k_best_ratio = 1032;  // of deflate
// A chunk of decompressed data, twice while it grows, and the tables of libzip and zlib.
constexpr std::size_t k_fixed = std::size_t{3} << 20;

// What an archive holds, as far as it can be read.
struct Contents {
  std::size_t bytes = 0;  ///< decompressed; of an array that cannot be read, what trying took
  std::int64_t rows = 0;  ///< as announced
};

std::int64_t rows_announced(const std::string& file, const std::vector<std::byte>& array) {
  try {
    const NpyArray npy = parse_npy_array(array, file);
    if (file == "shape.npy") {
      const std::vector<std::int64_t> shape = decode_integers(npy, file);
      return shape.empty() ? 0 : shape.front();
    }
    return npy.header.shape.size() == 2 ? npy.header.shape.front() : 0;
  } catch (const Error&) {
    return 0;  // refused by the reader too
  }
}

// The files that parse_npz() looks at.
std::vector<std::string> names_read(const ZipArchive& zip) {
  std::vector<std::string> names;
  if (!zip.contains("format.npy") && zip.names().size() == 1) return zip.names();
  for (const char* name :
       {"format.npy", "shape.npy", "data.npy", "indices.npy", "indptr.npy", "row.npy", "col.npy"}) {
    if (zip.contains(name)) names.emplace_back(name);
  }
  return names;
}

Contents read_contents(Bytes archive) {
  Contents contents;
  const std::size_t most = 4 * k_best_ratio * archive.size() + k_fixed;
  const auto zip = read_within(64 * archive.size() + k_fixed, k_refusal,
                               [&] { return ZipArchive(archive, k_refusal.name); });
  if (!zip) return contents;
  for (const std::string& name : names_read(*zip)) {
    const MemoryMeter meter;
    const auto file = read_within(most, k_refusal, [&] { return zip->read(name); });
    contents.bytes += static_cast<std::size_t>(meter.peak_bytes());
    if (!file) continue;
    expect(file->size() <= k_best_ratio * (archive.size() + 1), "a file larger than deflate can");
    contents.rows = std::max(contents.rows, rows_announced(name, *file));
  }
  return contents;
}

}  // namespace

void check_npz(Bytes archive) {
  constexpr std::size_t k_per_byte = 32;
  const Contents contents = read_contents(archive);
  if (contents.rows > k_most_rows) return;
  const std::size_t most =
      matrix_allowance(k_per_byte, contents.bytes + 2 * archive.size(), contents.rows) + k_fixed;
  read_within(most, k_refusal, [&] { return parse_npz_dense(archive, k_refusal.name, ""); });
  const auto matrix =
      read_within(most, k_refusal, [&] { return parse_npz(archive, k_refusal.name, {}); });
  if (!matrix) return;
  matrix->validate();
  const std::vector<std::byte> written = format_npz(*matrix, false, k_refusal.name);
  expect(same_matrix(parse_npz(written, k_refusal.name, {}), *matrix),
         "the matrix is another after writing and reading");
}

}  // namespace spjit::fuzz
