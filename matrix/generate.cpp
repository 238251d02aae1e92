#include "spjit/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

#include "matrix/limits.hpp"
#include "matrix/pattern_value.hpp"
#include "matrix/sampling.hpp"
#include "matrix/text_lines.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::array<std::pair<MatrixPattern, std::string_view>, 6> k_patterns = {
    {{MatrixPattern::uniform, "uniform"},
     {MatrixPattern::uneven_rows, "uneven_rows"},
     {MatrixPattern::blocks, "blocks"},
     {MatrixPattern::power_law, "power_law"},
     {MatrixPattern::banded, "banded"},
     {MatrixPattern::magnitude, "magnitude"}}};

/// Cells of a `magnitude` matrix: 4 GiB while it is made.
constexpr double k_most_magnitudes = 1 << 28;

void check_options(const GenerateOptions& options) {
  if (options.rows < 0 || options.rows > k_max_dimension || options.cols < 0 ||
      options.cols > k_max_dimension) {
    throw InvalidArgument(fmt::format("a matrix of {} x {} was asked for: expected 0 to {} each",
                                      options.rows, options.cols, k_max_dimension));
  }
  const auto pattern = static_cast<std::int64_t>(options.pattern);
  if (pattern < 0 || pattern >= static_cast<std::int64_t>(k_patterns.size())) {
    throw InvalidArgument(
        fmt::format("the pattern is {}: expected 0 to {}", pattern, k_patterns.size() - 1));
  }
  if (!(options.sparsity >= 0 && options.sparsity <= 1)) {
    throw InvalidArgument(fmt::format("sparsity is {}: expected 0 to 1", options.sparsity));
  }
  if (options.block_rows < 1 || options.block_cols < 1) {
    throw InvalidArgument(fmt::format("blocks are {} x {}: expected at least 1 x 1",
                                      options.block_rows, options.block_cols));
  }
}

std::int64_t target_nnz(const GenerateOptions& options) {
  const double cells = static_cast<double>(options.rows) * static_cast<double>(options.cols);
  if (options.pattern == MatrixPattern::magnitude && cells > k_most_magnitudes) {
    throw InvalidArgument(
        fmt::format("pattern magnitude needs a weight for each of {} x {} cells: "
                    "expected at most {:.0f}",
                    options.rows, options.cols, k_most_magnitudes));
  }
  const double nnz = std::round((1.0 - options.sparsity) * cells);
  if (nnz > static_cast<double>(k_max_dimension)) {
    throw InvalidArgument(
        fmt::format("{} x {} at sparsity {} has {:.3g} nonzeros: expected at "
                    "most {}",
                    options.rows, options.cols, options.sparsity, nnz, k_max_dimension));
  }
  return static_cast<std::int64_t>(nnz);
}

CsrMatrix empty_matrix(const GenerateOptions& options) {
  CsrMatrix matrix;
  matrix.rows = options.rows;
  matrix.cols = options.cols;
  matrix.row_ptrs.reserve(static_cast<std::size_t>(options.rows) + 1);
  return matrix;
}

// Adds the next row: these columns, each moved by `offset`.
void append_row(CsrMatrix& matrix, const std::vector<std::uint64_t>& cols,
                std::uint64_t offset = 0) {
  for (const std::uint64_t col : cols) {
    matrix.col_idxs.push_back(static_cast<std::int32_t>(col + offset));
  }
  matrix.row_ptrs.push_back(matrix.nnz());
}

CsrMatrix uniform(const GenerateOptions& options, std::int64_t nnz, RandomStream random) {
  CsrMatrix matrix = empty_matrix(options);
  const auto cols = static_cast<std::uint64_t>(options.cols);
  const std::vector<std::uint64_t> cells = sample_below(
      random, static_cast<std::uint64_t>(nnz), static_cast<std::uint64_t>(options.rows) * cols);
  matrix.col_idxs.reserve(cells.size());
  std::size_t at = 0;
  for (std::uint64_t row_end = cols; std::cmp_less(matrix.row_ptrs.size(), options.rows + 1);
       row_end += cols) {
    for (; at < cells.size() && cells[at] < row_end; ++at) {
      matrix.col_idxs.push_back(static_cast<std::int32_t>(cells[at] - (row_end - cols)));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

CsrMatrix uneven_rows(const GenerateOptions& options, std::int64_t nnz, RandomStream random) {
  CsrMatrix matrix = empty_matrix(options);
  std::vector<std::uint64_t> weights(static_cast<std::size_t>(options.rows));
  std::generate(weights.begin(), weights.end(), [&] { return log_normal_weight(random); });
  for (const std::int64_t row_nnz : split_by_weight(nnz, weights, options.cols)) {
    append_row(matrix, sample_below(random, static_cast<std::uint64_t>(row_nnz),
                                    static_cast<std::uint64_t>(options.cols)));
  }
  return matrix;
}

// Zipf's law: the weight of rank r is in proportion to 1 / (r + 1).
std::vector<std::uint64_t> zipf_weights(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint64_t> weights;
  weights.reserve(ranks.size());
  for (const std::uint32_t rank : ranks) {
    weights.push_back(std::max<std::uint64_t>((1U << 30U) / (std::uint64_t{rank} + 1), 1));
  }
  return weights;
}

// Draws columns of a row, a column of rank r being in proportion to 1 / (r + 1) likelier.
class ZipfColumns {
 public:
  explicit ZipfColumns(std::vector<std::uint32_t> ranks)
      : ranks_(std::move(ranks)), sums_(zipf_weights(ranks_)) {
    std::partial_sum(sums_.begin(), sums_.end(), sums_.begin());
  }

  std::vector<std::uint64_t> draw(RandomStream& random, std::size_t count) const {
    // Drawing until enough differ is quick for a short row, hopeless for a nearly full one.
    if (count <= ranks_.size() / 8) {
      return draw_distinct(count, [&] {
        const std::uint64_t point = random.below(sums_.back());
        return static_cast<std::uint64_t>(std::upper_bound(sums_.begin(), sums_.end(), point) -
                                          sums_.begin());
      });
    }
    return draw_in_order(random, count);
  }

 private:
  // Sequential Poisson sampling (Ohlsson): the smallest of uniform / weight.
  std::vector<std::uint64_t> draw_in_order(RandomStream& random, std::size_t count) const {
    using Key = std::pair<std::uint64_t, std::uint64_t>;  // uniform / weight, column
    std::vector<Key> keys;
    keys.reserve(ranks_.size());
    for (std::size_t col = 0; col < ranks_.size(); ++col) {
      keys.emplace_back((random.next() >> 32U) * (std::uint64_t{ranks_[col]} + 1), col);
    }
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(keys.begin(), count < keys.size() ? end : keys.begin(), keys.end());
    std::vector<std::uint64_t> cols;
    cols.reserve(count);
    std::for_each(keys.begin(), end, [&](const Key& key) { cols.push_back(key.second); });
    std::sort(cols.begin(), cols.end());
    return cols;
  }

  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint64_t> sums_;  // running sums of the weights
};

CsrMatrix power_law(const GenerateOptions& options, std::int64_t nnz, RandomStream random) {
  CsrMatrix matrix = empty_matrix(options);
  const std::vector<std::uint64_t> weights = zipf_weights(shuffled(random, options.rows));
  const ZipfColumns columns(shuffled(random, options.cols));
  for (const std::int64_t row_nnz : split_by_weight(nnz, weights, options.cols)) {
    append_row(matrix, columns.draw(random, static_cast<std::size_t>(row_nnz)));
  }
  return matrix;
}

// Every row has its even share, within a window twice as wide around the diagonal.
CsrMatrix banded(const GenerateOptions& options, std::int64_t nnz, RandomStream random) {
  CsrMatrix matrix = empty_matrix(options);
  const std::int64_t most = (nnz + options.rows - 1) / options.rows;
  const std::int64_t window = std::min(options.cols, 2 * most);
  for (std::int64_t row = 0; row < options.rows; ++row) {
    const std::int64_t row_nnz = (row + 1) * nnz / options.rows - row * nnz / options.rows;
    const std::int64_t centre = row * options.cols / options.rows;
    const std::int64_t begin =
        std::clamp<std::int64_t>(centre - window / 2, 0, options.cols - window);
    append_row(matrix,
               sample_below(random, static_cast<std::uint64_t>(row_nnz),
                            static_cast<std::uint64_t>(window)),
               static_cast<std::uint64_t>(begin));
  }
  return matrix;
}

// The matrix cut into blocks; those of the last row and column may be smaller.
struct BlockGrid {
  std::int64_t rows, cols;
  std::int64_t block_rows, block_cols;

  [[nodiscard]] std::int64_t grid_rows() const { return (rows + block_rows - 1) / block_rows; }
  [[nodiscard]] std::int64_t grid_cols() const { return (cols + block_cols - 1) / block_cols; }
  [[nodiscard]] std::int64_t height(std::int64_t grid_row) const {
    return std::min(block_rows, rows - grid_row * block_rows);
  }
  [[nodiscard]] std::int64_t width(std::int64_t grid_col) const {
    return std::min(block_cols, cols - grid_col * block_cols);
  }
  [[nodiscard]] std::int64_t cells(std::int64_t block) const {
    return height(block / grid_cols()) * width(block % grid_cols());
  }
};

// Blocks in random order, until the next would be more than half too much.
std::vector<std::int64_t> draw_blocks(const BlockGrid& grid, std::int64_t nnz,
                                      RandomStream& random) {
  const std::int64_t count = grid.grid_rows() * grid.grid_cols();
  const std::int64_t full = grid.block_rows * grid.block_cols;
  // Where blocks are few or most are wanted, a shuffled list; else draws until one is new.
  const bool listed = nnz > grid.rows * grid.cols / 2;
  const std::vector<std::uint32_t> order = shuffled(random, listed ? count : 0);
  std::unordered_set<std::uint64_t> taken;
  std::vector<std::int64_t> blocks;
  std::int64_t left = nnz;
  while (2 * left >= full && std::cmp_less(blocks.size(), count)) {
    std::uint64_t block = listed ? order[blocks.size()] : 0;
    while (!listed) {
      block = random.below(static_cast<std::uint64_t>(count));
      if (taken.insert(block).second) {
        break;
      }
    }
    blocks.push_back(static_cast<std::int64_t>(block));
    left -= grid.cells(blocks.back());
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

CsrMatrix blocks(const GenerateOptions& options, std::int64_t nnz, RandomStream random) {
  const BlockGrid grid{options.rows, options.cols, std::min(options.block_rows, options.rows),
                       std::min(options.block_cols, options.cols)};
  const std::vector<std::int64_t> chosen = draw_blocks(grid, nnz, random);
  CsrMatrix matrix = empty_matrix(options);
  auto begin = chosen.begin();
  for (std::int64_t grid_row = 0; grid_row < grid.grid_rows(); ++grid_row) {
    const auto end = std::lower_bound(begin, chosen.end(), (grid_row + 1) * grid.grid_cols());
    for (std::int64_t row = 0; row < grid.height(grid_row); ++row) {
      for (auto block = begin; block != end; ++block) {
        const std::int64_t grid_col = *block % grid.grid_cols();
        for (std::int64_t col = 0; col < grid.width(grid_col); ++col) {
          matrix.col_idxs.push_back(static_cast<std::int32_t>(grid_col * grid.block_cols + col));
        }
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    begin = end;
  }
  return matrix;
}

CsrMatrix generate_positions(const GenerateOptions& options, std::int64_t nnz,
                             RandomStream random) {
  switch (options.pattern) {
    case MatrixPattern::uniform:
      return uniform(options, nnz, random);
    case MatrixPattern::uneven_rows:
      return uneven_rows(options, nnz, random);
    case MatrixPattern::blocks:
      return blocks(options, nnz, random);
    case MatrixPattern::power_law:
      return power_law(options, nnz, random);
    case MatrixPattern::banded:
      return banded(options, nnz, random);
    case MatrixPattern::magnitude:
      return magnitude_positions(options.rows, options.cols, nnz, random);
  }
  throw InvalidArgument(
      fmt::format("pattern {} is not one of MatrixPattern", static_cast<int>(options.pattern)));
}

}  // namespace

CsrMatrix generate_matrix(const GenerateOptions& options) {
  check_options(options);
  const std::int64_t nnz = target_nnz(options);
  if (nnz == 0) {
    CsrMatrix matrix = empty_matrix(options);
    matrix.row_ptrs.resize(static_cast<std::size_t>(options.rows) + 1, 0);
    return matrix;
  }
  CsrMatrix matrix = generate_positions(options, nnz, RandomStream(options.seed));
  fill_pattern_values(matrix, options.seed);
  return matrix;
}

MatrixPattern parse_pattern(std::string_view name) {
  std::string known;
  for (const auto& [pattern, pattern_name] : k_patterns) {
    if (name == pattern_name) {
      return pattern;
    }
    known += (known.empty() ? "" : ", ") + std::string(pattern_name);
  }
  throw InvalidArgument(
      fmt::format("pattern {} is unknown: expected {}", quoted_word(name), known));
}

std::string_view to_string(MatrixPattern pattern) {
  for (const auto& [known, name] : k_patterns) {
    if (pattern == known) {
      return name;
    }
  }
  throw InvalidArgument(
      fmt::format("pattern {} is not one of MatrixPattern", static_cast<int>(pattern)));
}

}  // namespace spjit
