#include "kernels/host/loops/compact_packing.hpp"

#include <array>
#include <cstddef>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/simd.hpp"
#include "kernels/host/operands/transpose.hpp"

namespace spjit {
namespace {

/// Columns of a panel, at most a vector, that lie together in a row of B and in a plane.
struct Piece {
  std::int64_t from;  ///< floats from where the row begins
  std::int64_t to;    ///< the same of a packed row
  std::int64_t columns;
};

/// Of all columns of a panel, by column.
struct PanelPieces {
  std::array<Piece, to_size(k_compact_panel_columns)> all;
  std::size_t count = 0;
  std::int64_t columns = 0;
};

/// How far ahead rows of B are asked for. They are as far apart as B is wide, so the CPU finds the
/// next one late: of n = 256, in sequence, with AVX2, 0.98 of the time with it.
constexpr std::int64_t k_rows_ahead = 8;

void fetch_row(const DenseSource& b, std::int64_t row, std::int64_t columns) {
  const float* const from = b.row(row);
  for (std::int64_t j = 0; j < columns; j += k_plane_row) {
    _mm_prefetch(reinterpret_cast<const char*>(from + j), _MM_HINT_T0);
  }
}

SPJIT_AVX512_TARGET void pack_avx512(const PackedPart& part, const PackedLayout& layout,
                                     float* to) {
  using Ymm = Avx512Ymm;
  using Zmm = Avx512Zmm;
  if (part.columns <= Ymm::k_floats) {
    const Ymm::Mask mask = Ymm::mask(part.columns);
    for (std::int64_t row = 0; row < part.rows; ++row, to += layout.row) {
      Ymm::store(to, Ymm::load(part.b.row(row), mask));
    }
    return;
  }
  const std::int64_t whole = part.columns / k_plane_row * k_plane_row;
  const Zmm::Mask mask = Zmm::mask(part.columns - whole);
  for (std::int64_t row = 0; row < part.rows; ++row) {
    const float* const from = part.b.row(row);
    float* plane = to;
    for (std::int64_t j = 0; j < whole; j += k_plane_row, plane += layout.plane) {
      _mm512_store_ps(plane, _mm512_loadu_ps(from + j));
    }
    if (mask != 0) _mm512_store_ps(plane, _mm512_maskz_loadu_ps(mask, from + whole));
    to += layout.row;
  }
}

/// What a vector of zeros has past its row is written over by the next row.
SPJIT_AVX512_TARGET void pack_pieces_avx512(const PackedPart& part, const PanelPieces& pieces,
                                            const PackedLayout& layout, float* to) {
  using Zmm = Avx512Zmm;
  const std::int64_t gap = pieces.columns / k_plane_row * layout.plane;
  const bool has_gap = pieces.columns % k_plane_row != 0;
  for (std::int64_t row = 0; row < part.rows; ++row) {
    const float* const from = part.b.row(row);
    if (has_gap) Zmm::store(to + gap, Zmm::zero());
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const Piece& piece = pieces.all[i];
      const Zmm::Mask mask = Zmm::mask(piece.columns);
      Zmm::store(to + piece.to, Zmm::load(from + piece.from, mask), mask);
    }
    to += layout.row;
  }
}

/// Into rows, or into the one plane of a narrow panel.
SPJIT_AVX2_TARGET void pack_avx2(const PackedPart& part, const PackedLayout& layout, float* to) {
  using Ymm = Avx2Ymm;
  const std::int64_t whole = part.columns / Ymm::k_floats * Ymm::k_floats;
  const Ymm::Mask rest = Ymm::mask(part.columns - whole);
  for (std::int64_t row = 0; row < part.rows; ++row) {
    const float* const from = part.b.row(row);
    fetch_row(part.b, std::min(row + k_rows_ahead, part.rows - 1), part.columns);
    if (whole == k_compact_panel_columns) {
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < k_compact_panel_columns; j += Ymm::k_floats) {
        Ymm::store(to + j, Ymm::load(from + j));
      }
    } else {
      for (std::int64_t j = 0; j < whole; j += Ymm::k_floats) {
        Ymm::store(to + j, Ymm::load(from + j));
      }
    }
    if (whole < part.columns) Ymm::store(to + whole, Ymm::load(from + whole, rest));
    to += layout.row;
  }
}

/// What a vector has past its piece is written over by the next piece or row.
SPJIT_AVX2_TARGET void pack_pieces_avx2(const PackedPart& part, const PanelPieces& pieces,
                                        const PackedLayout& layout, float* to) {
  using Ymm = Avx2Ymm;
  const std::int64_t gap = pieces.columns / Ymm::k_floats * Ymm::k_floats;
  const bool has_gap = gap < pieces.columns;
  for (std::int64_t row = 0; row < part.rows; ++row) {
    const float* const from = part.b.row(row);
    if (has_gap) Ymm::store(to + gap, Ymm::zero());
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const Piece& piece = pieces.all[i];
      Ymm::store(to + piece.to, Ymm::load(from + piece.from, Ymm::mask(piece.columns)));
    }
    to += layout.row;
  }
}

/// Of a product's columns from one on.
PanelPieces pieces_of(const PackedPart& part, std::int64_t lanes, const PackedLayout& layout) {
  const Product& product = part.product;
  const std::int64_t first = product.first_column + part.first_column;
  PanelPieces pieces;
  pieces.columns = part.columns;
  auto run = std::ranges::upper_bound(product.runs, first, {}, &ColumnRun::column) - 1;
  for (std::int64_t at = 0; at < part.columns;) {
    const std::int64_t column = first + at;
    const bool is_last = run + 1 == product.runs.end();
    const std::int64_t of_run = is_last ? part.columns - at : (run + 1)->column - column;
    const std::int64_t of_plane = k_plane_row - at % k_plane_row;
    const std::int64_t count = std::min({of_run, of_plane, part.columns - at, lanes});
    pieces.all[pieces.count++] = {run->offset + column - run->column,
                                  at / k_plane_row * layout.plane + at % k_plane_row, count};
    at += count;
    if (count == of_run) ++run;
  }
  return pieces;
}

}  // namespace

void pack_panel(const PackedPart& part, const PackedLayout& layout, HostIsa isa, float* to) {
  const bool is_avx512 = isa == HostIsa::avx512;
  if (!part.product.runs.empty()) {
    const std::int64_t lanes = is_avx512 ? Avx512Zmm::k_floats : Avx2Ymm::k_floats;
    const PanelPieces pieces = pieces_of(part, lanes, layout);
    (is_avx512 ? pack_pieces_avx512 : pack_pieces_avx2)(part, pieces, layout, to);
  } else if (!part.product.has_tokens) {
    (is_avx512 ? pack_avx512 : pack_avx2)(part, layout, to);
  } else {
    transpose(IntoPanels{.from = {part.b.data, part.b.ld},
                         .rows = part.columns,
                         .columns = part.rows,
                         .to = {to, std::min(k_plane_row, layout.row), layout.row, layout.plane}},
              isa);
  }
}

bool is_as_packed(const DenseSource& b, std::int64_t columns, const PackedLayout& layout) {
  const std::uintptr_t alignment = to_size(std::min(layout.row, k_plane_row)) * sizeof(float);
  return b.places == nullptr && b.ld == layout.row && columns == layout.row &&
         reinterpret_cast<std::uintptr_t>(b.data) % alignment == 0;
}

}  // namespace spjit
