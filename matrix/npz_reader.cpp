#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "matrix/coordinate.hpp"
#include "matrix/limits.hpp"
#include "matrix/npy_reader.hpp"
#include "matrix/readers.hpp"
#include "matrix/text_lines.hpp"
#include "matrix/zip_archive.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_any_count = std::numeric_limits<std::int64_t>::max();

// Decodes the arrays of one archive; errors name file and array.
class ArrayReader {
 public:
  ArrayReader(Bytes bytes, std::string_view name) : zip_(bytes, name), name_(name) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool contains(const std::string& array) const {
    return zip_.contains(array + ".npy");
  }

  // What `decode` makes of the array. One of over `most` elements is refused before it is unpacked,
  // as is what is no array or one of another size than the archive says.
  template <typename Decode>
  [[nodiscard]] auto decode(const std::string& array, std::int64_t most, Decode&& decode) const {
    const std::string where = fmt::format("{}: array {}", name_, quoted_word(array));
    const auto check = [&](Bytes head, std::size_t array_bytes) {
      const NpyHeader header = parse_npy_header(head, array_bytes, where);
      if (header.count > most) {
        fail_to_read(where,
                     fmt::format("it has {} elements: expected at most {}", header.count, most));
      }
    };
    const std::vector<std::byte> bytes = zip_.read(array + ".npy", check);
    return decode(parse_npy_array(bytes, where), where);
  }

  // The functions that use them say better what is wrong with arrays of few elements.
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& array,
                                                   std::int64_t most) const {
    return decode(array, std::max(most, k_few), decode_vector<std::int64_t>);
  }
  [[nodiscard]] std::vector<float> floats(const std::string& array, std::int64_t most) const {
    return decode(array, std::max(most, k_few), decode_vector<float>);
  }
  [[nodiscard]] std::string text(const std::string& array) const {
    return decode(array, k_few, decode_text);
  }

  // The name of the only array, without ".npy".
  [[nodiscard]] std::string only_array() const {
    const std::vector<std::string>& names = zip_.names();
    if (names.size() != 1 || !names.front().ends_with(".npy")) {
      fail_to_read(name_,
                   fmt::format("the archive has {} files and no array 'format': expected what "
                               "scipy.sparse.save_npz writes, or a single .npy",
                               names.size()));
    }
    return names.front().substr(0, names.front().size() - 4);
  }

 private:
  static constexpr std::int64_t k_few = 4096;

  template <typename Number>
  static std::vector<Number> decode_vector(const NpyArray& array, std::string_view where) {
    if (array.header.shape.size() != 1) {
      fail_to_read(where,
                   fmt::format("it has {} dimensions: expected 1", array.header.shape.size()));
    }
    if constexpr (std::is_same_v<Number, float>) {
      return decode_floats(array, where);
    } else {
      return decode_integers(array, where);
    }
  }

  ZipArchive zip_;
  std::string name_;
};

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

Shape read_shape(const ArrayReader& arrays) {
  const std::vector<std::int64_t> shape = arrays.integers("shape", 2);
  if (shape.size() != 2 || shape[0] < 0 || shape[0] > k_max_dimension || shape[1] < 0 ||
      shape[1] > k_max_dimension) {
    constexpr std::size_t k_shown = 4;
    fail_to_read(
        arrays.name(),
        fmt::format("shape is [{}{}]: expected two sizes from 0 to {}",
                    fmt::join(std::span(shape).first(std::min(shape.size(), k_shown)), ", "),
                    shape.size() > k_shown ? ", ..." : "", k_max_dimension));
  }
  return {shape[0], shape[1]};
}

// Only indptr of csr has something to show for each row.
void check_rows(const ArrayReader& arrays, std::int64_t rows, std::size_t archive_bytes) {
  if (rows > most_rows(archive_bytes)) {
    fail_to_read(arrays.name(),
                 fmt::format("shape asks for {} rows: an archive of {} bytes may have {}", rows,
                             archive_bytes, most_rows(archive_bytes)));
  }
}

void check_indices(const ArrayReader& arrays, const std::string& array,
                   const std::vector<std::int64_t>& indices, std::int64_t bound) {
  const auto bad = std::find_if(indices.begin(), indices.end(),
                                [bound](std::int64_t i) { return i < 0 || i >= bound; });
  if (bad != indices.end()) {
    fail_to_read(arrays.name(),
                 fmt::format("array '{}': element {} is {}: expected 0 <= index < {}", array,
                             bad - indices.begin(), *bad, bound));
  }
}

void check_same_length(const ArrayReader& arrays, std::size_t indices, std::size_t values) {
  if (indices != values) {
    fail_to_read(arrays.name(),
                 fmt::format("the archive has {} indices and {} values: expected as many of each",
                             indices, values));
  }
}

void check_offsets(const ArrayReader& arrays, const std::vector<std::int64_t>& offsets,
                   std::int64_t lines, std::size_t nnz) {
  if (offsets.size() != static_cast<std::size_t>(lines) + 1) {
    fail_to_read(arrays.name(),
                 fmt::format("array 'indptr' has {} elements: expected {} for the shape",
                             offsets.size(), lines + 1));
  }
  if (offsets.front() != 0 || offsets.back() != static_cast<std::int64_t>(nnz)) {
    fail_to_read(arrays.name(), fmt::format("array 'indptr' runs from {} to {}: expected 0 to {}",
                                            offsets.front(), offsets.back(), nnz));
  }
  const auto drop = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (drop != offsets.end()) {
    fail_to_read(arrays.name(), fmt::format("array 'indptr' falls from {} to {} at element {}",
                                            drop[0], drop[1], drop - offsets.begin()));
  }
}

// CSR, and CSC as the CSR of the transpose.
std::vector<CoordinateEntry> read_compressed(const ArrayReader& arrays, Shape shape, bool by_rows) {
  const std::int64_t lines = by_rows ? shape.rows : shape.cols;
  const std::vector<std::int64_t> offsets = arrays.integers("indptr", lines + 1);
  const std::int64_t nnz = offsets.empty() ? 0 : offsets.back();
  const std::vector<std::int64_t> indices = arrays.integers("indices", nnz);
  const std::vector<float> values = arrays.floats("data", std::ssize(indices));
  check_same_length(arrays, indices.size(), values.size());
  check_offsets(arrays, offsets, lines, indices.size());
  check_indices(arrays, "indices", indices, by_rows ? shape.cols : shape.rows);
  std::vector<CoordinateEntry> entries;
  entries.reserve(indices.size());
  for (std::size_t line = 0; line + 1 < offsets.size(); ++line) {
    for (auto at = static_cast<std::size_t>(offsets[line]);
         at < static_cast<std::size_t>(offsets[line + 1]); ++at) {
      const auto major = static_cast<std::int32_t>(line);
      const auto minor = static_cast<std::int32_t>(indices[at]);
      entries.push_back({by_rows ? major : minor, by_rows ? minor : major, values[at]});
    }
  }
  return entries;
}

std::vector<CoordinateEntry> read_triplets(const ArrayReader& arrays, Shape shape) {
  const std::vector<std::int64_t> rows = arrays.integers("row", shape.rows * shape.cols);
  const std::vector<std::int64_t> cols = arrays.integers("col", std::ssize(rows));
  const std::vector<float> values = arrays.floats("data", std::ssize(rows));
  check_same_length(arrays, rows.size(), values.size());
  check_same_length(arrays, cols.size(), values.size());
  check_indices(arrays, "row", rows, shape.rows);
  check_indices(arrays, "col", cols, shape.cols);
  std::vector<CoordinateEntry> entries;
  entries.reserve(values.size());
  for (std::size_t at = 0; at < values.size(); ++at) {
    entries.push_back(
        {static_cast<std::int32_t>(rows[at]), static_cast<std::int32_t>(cols[at]), values[at]});
  }
  return entries;
}

CsrMatrix read_sparse(const ArrayReader& arrays, std::size_t archive_bytes,
                      const LoadOptions& options) {
  const std::string format = arrays.text("format");
  if (format != "csr" && format != "csc" && format != "coo") {
    fail_to_read(arrays.name(),
                 fmt::format("the scipy format is {}: expected csr, csc or coo, convert "
                             "with .tocsr()",
                             quoted_word(format)));
  }
  const Shape shape = read_shape(arrays);
  const bool by_rows = format == "csr";
  if (!by_rows) {
    check_rows(arrays, shape.rows, archive_bytes);
  }
  CsrMatrix matrix = csr_from_coordinates(
      format == "coo" ? read_triplets(arrays, shape) : read_compressed(arrays, shape, by_rows),
      shape.rows, shape.cols);
  if (const std::optional<Position> twin = find_duplicate(matrix)) {
    fail_to_read(arrays.name(),
                 fmt::format("row {} has column {} twice: call .sum_duplicates() first", twin->row,
                             twin->col));
  }
  if (!options.keep_explicit_zeros) {
    matrix.drop_explicit_zeros();
  }
  return matrix;
}

}  // namespace

CsrMatrix parse_npz(Bytes bytes, std::string_view name, const LoadOptions& options) {
  const ArrayReader arrays(bytes, name);
  if (arrays.contains("format")) {
    return read_sparse(arrays, bytes.size(), options);
  }
  return arrays.decode(arrays.only_array(), k_any_count, csr_from_array);
}

DenseMatrix parse_npz_dense(Bytes bytes, std::string_view name, const std::string& array) {
  const ArrayReader arrays(bytes, name);
  return arrays.decode(array.empty() ? arrays.only_array() : array, k_any_count, decode_dense);
}

}  // namespace spjit
