#include "tests/soak/soak_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "spjit/generate.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::soak {
namespace {

using testing_support::Draw;
using testing_support::draw_value;
using testing_support::special_value;

/// Multiply-adds of an ordinary case: the reference takes some nanoseconds for each.
constexpr std::int64_t k_ordinary_products = 2'000'000;
constexpr std::int64_t k_most_index = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t k_most_elements = std::int64_t{1} << 24;  ///< of C where all is written

/// Adds a row with these columns.
void add_row(CsrMatrix& matrix, Draw& draw, const std::set<std::int64_t>& columns, bool special) {
  for (const std::int64_t column : columns) {
    matrix.col_idxs.push_back(static_cast<std::int32_t>(column));
    matrix.values.push_back(draw_value(draw, special));
  }
  matrix.row_ptrs.push_back(matrix.nnz());
  ++matrix.rows;
}

/// Up to `most` rows and columns of any density, with empty and full rows among them.
CsrMatrix draw_small(Draw& draw, std::int64_t most, bool special) {
  CsrMatrix matrix;
  matrix.cols = draw.between(0, most);
  const std::int64_t rows = draw.between(0, most);
  const auto density = draw.one_of<std::int64_t>({0, 1, 5, 10, 30, 60, 100});
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t here = draw.chance(10) ? draw.one_of<std::int64_t>({0, 100}) : density;
    std::set<std::int64_t> columns;
    for (std::int64_t column = 0; column < matrix.cols; ++column) {
      if (draw.chance(here)) columns.insert(column);
    }
    add_row(matrix, draw, columns, special);
  }
  return matrix;
}

/// Few entries among up to 2^31 - 1 columns: offsets beyond 32 bits. Some lie together.
CsrMatrix draw_wide(Draw& draw, bool special) {
  CsrMatrix matrix;
  matrix.cols = draw.chance(30) ? k_most_index : draw.between(1, k_most_index);
  const std::int64_t rows = draw.between(1, 40);
  const std::int64_t cluster = draw.between(0, matrix.cols - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::set<std::int64_t> columns;
    const std::int64_t count = draw.between(0, 6);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t near = std::min(cluster + draw.between(0, 200), matrix.cols - 1);
      columns.insert(draw.chance(50) ? near : draw.between(0, matrix.cols - 1));
    }
    if (draw.chance(10)) columns.insert(matrix.cols - 1);
    add_row(matrix, draw, columns, special);
  }
  return matrix;
}

CsrMatrix draw_generated(Draw& draw, std::int64_t rows, std::int64_t cols, double sparsity) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.seed = static_cast<std::uint64_t>(draw.between(1, 1'000'000'000));
  options.pattern = draw.one_of<MatrixPattern>({MatrixPattern::uniform, MatrixPattern::uneven_rows,
                                                MatrixPattern::blocks, MatrixPattern::power_law,
                                                MatrixPattern::banded, MatrixPattern::magnitude});
  return generate_matrix(options);
}

/// One row with most of its columns filled, among rows with one entry.
CsrMatrix draw_dense_row(Draw& draw, bool special) {
  CsrMatrix matrix;
  matrix.cols = draw.between(1000, 100'000);
  const std::int64_t rows = draw.between(1, 50);
  const std::int64_t full = draw.between(0, rows - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::set<std::int64_t> columns;
    for (std::int64_t column = 0; row == full && column < matrix.cols; ++column) {
      if (draw.chance(95)) columns.insert(column);
    }
    columns.insert(draw.between(0, matrix.cols - 1));
    add_row(matrix, draw, columns, special);
  }
  return matrix;
}

/// Rows in whose columns no order is kept.
void shuffle_columns(Draw& draw, CsrMatrix& matrix) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.row_ptrs[to_size(row)];
    for (std::int64_t i = matrix.row_ptrs[to_size(row) + 1] - 1; i > begin; --i) {
      const std::int64_t other = draw.between(begin, i);
      std::swap(matrix.col_idxs[to_size(i)], matrix.col_idxs[to_size(other)]);
      std::swap(matrix.values[to_size(i)], matrix.values[to_size(other)]);
    }
  }
}

CsrMatrix draw_matrix(Draw& draw, bool special) {
  const std::int64_t kind = draw.between(1, 1000);
  const auto sparsity = [&] { return static_cast<double>(draw.between(30, 999)) / 1000; };
  if (kind <= 150) return draw_small(draw, 8, special);
  if (kind <= 600) return draw_small(draw, 60, special);
  if (kind <= 800) return draw_small(draw, 300, special);
  if (kind <= 890) {
    return draw_generated(draw, draw.between(1, 700), draw.between(1, 700), sparsity());
  }
  if (kind <= 980) return draw_wide(draw, special);
  if (kind <= 990) return draw_dense_row(draw, special);
  if (kind <= 998) {
    return draw_generated(draw, draw.between(5000, 60'000), draw.between(1, 64), sparsity());
  }
  return draw_generated(draw, draw.between(1500, 2500), draw.between(1500, 2500), 0.5);
}

std::int64_t draw_n(Draw& draw, const CsrMatrix& matrix) {
  const std::int64_t nnz = matrix.nnz();
  // Now and then more products than 2^31 fit into.
  if (nnz > 1'000'000) return draw.between(1, (std::int64_t{5} << 29) / nnz);
  std::int64_t n = draw.chance(40)
                       ? draw.one_of<std::int64_t>({1, 2, 3, 4, 8, 15, 16, 17, 32, 64, 128, 256})
                       : draw.between(1, 300);
  n = std::min(n, std::max<std::int64_t>(k_ordinary_products / std::max<std::int64_t>(nnz, 1), 1));
  return std::min(
      n, std::max<std::int64_t>(k_most_elements / (std::max<std::int64_t>(matrix.rows, 1)), 1));
}

/// Rows so far from each other that offsets pass 2^31 or 2^32 bytes.
std::int64_t far_apart(Draw& draw, std::int64_t rows, std::int64_t n) {
  const std::int64_t bytes = draw.one_of<std::int64_t>(
      {std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 33});
  return std::max(n, bytes / 4 / std::max<std::int64_t>(rows - 1, 1) + draw.between(-20, 20));
}

void draw_distances(Draw& draw, SoakCase& item) {
  item.ldb = item.n + (draw.chance(50) ? draw.between(0, 20) : 0);
  item.ldc = item.n + (draw.chance(50) ? draw.between(0, 20) : 0);
  if (draw.chance(30))
    item.compiled_ldb = draw.chance(50) ? item.ldb : item.n + draw.between(0, 40);
  const bool wide = item.matrix.cols > 1'000'000;
  if (!wide && draw.chance(4)) {
    item.ldb = far_apart(draw, item.matrix.cols, item.n);
    item.compiled_ldb = draw.chance(50) ? item.ldb : 0;
  }
  if (draw.chance(4) && item.matrix.rows < 5000) {
    item.ldc = far_apart(draw, item.matrix.rows, item.n);
  }
}

void draw_host(Draw& draw, SoakCase& item) {
  const std::vector<HostIsa> isas = testing_support::isas_here();
  item.isa = draw.one_of(isas);
  // LLVM takes milliseconds a kernel: it gets fewer of them.
  if (item.isa == HostIsa::generic && draw.chance(70)) item.isa = isas.front();
  if (item.isa == HostIsa::generic && item.matrix.nnz() > 20'000) item.isa = isas.front();
  item.route = draw.one_of<Route>(
      {Route::rows, Route::rows, Route::rows, Route::panels, Route::cached, Route::object});
  item.threads = static_cast<int>(draw.chance(60) ? 1 : draw.between(2, 5));
  item.reorder = draw.one_of<ReorderAlgorithm>(
      {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity});
  const bool wide = item.matrix.cols > 1'000'000;
  if (wide && item.route == Route::panels) item.route = Route::rows;
  if (item.route == Route::panels || draw.chance(20)) {
    item.panel_vectors = draw.between(1, widest_panel_vectors(item.isa));
  }
  item.no_code = draw.chance(15);
  item.hot = draw.chance(50);
  if (draw.chance(2)) item.search = draw.chance(70) ? SearchMode::ranked : SearchMode::proxy;
  draw_distances(draw, item);
}

void draw_ptx(Draw& draw, SoakCase& item) {
  item.route = Route::ptx;
  item.n = std::min<std::int64_t>(item.n, 70);
  item.reorder = draw.one_of<ReorderAlgorithm>(
      {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity});
  item.ptx.m1 = draw.between(1, 60);
  item.ptx.n1 = 32 * draw.between(1, 3);
  item.ptx.unit_nonzeros = draw.between(1, 3000);
  item.ptx.runtime_sizes = draw.chance(50);
  item.ldb = item.n + draw.between(0, 3);
  item.ldc = item.n + draw.between(0, 3);
}

/// The emulated driver takes microseconds for an instruction.
bool suits_ptx(const CsrMatrix& matrix) {
  return matrix.rows >= 1 && matrix.rows <= 400 && matrix.cols <= 400 && matrix.nnz() <= 5000;
}

}  // namespace

const char* to_string(Route route) {
  switch (route) {
    case Route::rows:
      return "rows";
    case Route::panels:
      return "panels";
    case Route::cached:
      return "cached";
    case Route::object:
      return "object";
    case Route::ptx:
      return "ptx";
  }
  return "?";
}

SoakCase draw_case(std::uint64_t seed) {
  Draw draw(seed);
  SoakCase item;
  item.seed = seed;
  item.special_values = draw.chance(30);
  item.matrix = draw_matrix(draw, item.special_values);
  if (draw.chance(20)) shuffle_columns(draw, item.matrix);
  item.n = draw_n(draw, item.matrix);
  if (suits_ptx(item.matrix) && draw.chance(15)) {
    draw_ptx(draw, item);
  } else {
    draw_host(draw, item);
  }
  return item;
}

float b_value(const SoakCase& item, std::int64_t row, std::int64_t column) {
  std::uint64_t bits = item.seed * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(row);
  bits = (bits ^ (bits >> 31)) * 0xBF58476D1CE4E5B9U + static_cast<std::uint64_t>(column);
  bits = (bits ^ (bits >> 29)) * 0x94D049BB133111EBU;
  bits ^= bits >> 32;
  if (item.special_values && bits % 101 == 0) {
    return special_value(bits >> 8);
  }
  return static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) * 0x1p-23F;
}

std::string describe(const SoakCase& item) {
  const bool ptx = item.route == Route::ptx;
  std::string text = fmt::format(
      "seed={} {} route={} m={} k={} nnz={} n={} ldb={} ldc={} reorder={}", item.seed,
      ptx ? "cuda" : to_string(item.isa), to_string(item.route), item.matrix.rows, item.matrix.cols,
      item.matrix.nnz(), item.n, item.ldb, item.ldc, to_string(item.reorder));
  if (ptx) {
    return text + fmt::format(" m1={} n1={} unit_nonzeros={} runtime_sizes={}", item.ptx.m1,
                              item.ptx.n1, item.ptx.unit_nonzeros, item.ptx.runtime_sizes);
  }
  return text +
         fmt::format(" compiled_ldb={} threads={} panel_vectors={} no_code={} hot={} search={}{}",
                     item.compiled_ldb, item.threads, item.panel_vectors, item.no_code, item.hot,
                     to_string(item.search), item.special_values ? " special" : "");
}

}  // namespace spjit::soak
