#include "kernels/host/loops/compact_kernel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/simd.hpp"
#include "kernels/host/operands/transpose.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spjit {
namespace {

/// Floats of a row of packed B in a plane: a cache line, of which a narrow panel fills half.
constexpr std::int64_t k_plane_row = 16;
/// Floats from one plane of sixteen columns to the next.
constexpr std::int64_t k_plane = CompactMatrix::k_most_packed_columns * k_plane_row;

/// How far ahead of their use values are asked for [bytes]; column numbers, which are half as
/// large, half as far. A step is so much work that few loads of what comes next are under way by
/// themselves: from memory n = 32 takes 1.5 times as long without, n = 64 1.2 times, n = 8 1.1
/// times.
constexpr std::ptrdiff_t k_values_ahead = 4096;
/// The same into L1, on CPUs that load weights (in sequence n of 8 and 16 take 0.92 to 0.95 of the
/// time with values only, 4 KB ahead, into L2; hot 1.01 to 1.03).
constexpr std::ptrdiff_t k_near_ahead = 2048;

/// What a run goes through, without bounds.
struct Streams {
  const CompactMatrix::Slice* slices;
  const CompactMatrix::Slice* end;
  const std::uint16_t* offsets;
  const float* values;
  const std::uint16_t* tail_offsets;
  const float* tail_values;
};

/// Columns of B and C that one pass computes.
struct Panel {
  const float* b;              ///< the block's first row, or from where places count
  std::int64_t ldb;            ///< of a B that is read in place
  const std::int64_t* places;  ///< the same, of the block's rows, if they have some
  float* c;                    ///< row 0
  std::int64_t ldc;
  std::int64_t last;  ///< columns of the last vector
  bool fetches_c;     ///< rows of C may be far away
};

using RunBlock = void (*)(Streams, const Panel&, bool);

/// Where packed B is.
struct PackedLayout {
  std::int64_t row;    ///< floats from a row to the next
  std::int64_t plane;  ///< the same from sixteen columns of it to the next
};

/// In planes: a column number is the address for panels of any width.
PackedLayout in_planes(std::int64_t /*columns*/) { return {k_plane_row, k_plane}; }
/// In rows: as B is itself where it has no more columns than a panel.
PackedLayout in_rows(std::int64_t columns) { return {compact_row_floats(columns), k_plane_row}; }

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

/// What an instruction set has.
struct Kernels {
  std::int64_t panel_columns;
  std::int64_t widest;  ///< lanes of vectors of a panel that is not narrow
  /// Of a panel of so many columns.
  PackedLayout (*layout)(std::int64_t columns);
  RunBlock (*packed)(std::int64_t columns);
  RunBlock (*in_place)(std::int64_t columns);
  RunBlock (*in_place_masked)(std::int64_t columns);
  RunBlock (*at_places)(std::int64_t columns);
  RunBlock (*at_places_masked)(std::int64_t columns);
  /// Copies rows of B, with zeros past `columns` in the last vector.
  void (*pack)(const DenseSource& b, std::int64_t rows, std::int64_t columns,
               const PackedLayout& layout, float* to);
  /// The same from pieces.
  void (*pack_pieces)(const DenseSource& b, std::int64_t rows, const PanelPieces& pieces,
                      const PackedLayout& layout, float* to);

  /// What reads B where it is, by vectors of so many lanes.
  [[nodiscard]] RunBlock reading(const Panel& panel, std::int64_t columns,
                                 std::int64_t lanes) const {
    const bool is_masked = panel.last != lanes;
    if (panel.places == nullptr) return (is_masked ? in_place_masked : in_place)(columns);
    return (is_masked ? at_places_masked : at_places)(columns);
  }
};

namespace avx512 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX512_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX512_INLINE

using Zmm = Avx512Zmm;
using Ymm = Avx512Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 2;
constexpr bool k_fma_broadcasts = true;

#include "kernels/host/loops/compact_rows.inc"

template <class B, class Narrow = Ymm, class Wide = Zmm>
RunBlock kernel_for(std::int64_t columns) {
  if (columns <= 8) return run_block<Narrow, B, 1>;
  if (columns <= 16) return run_block<Wide, B, 1>;
  if (columns <= 32) return run_block<Wide, B, 2>;
  if (columns <= 48) return run_block<Wide, B, 3>;
  return run_block<Wide, B, 4>;
}

template <class B>
RunBlock loading_kernel_for(std::int64_t columns) {
  return kernel_for<B, Loading<Ymm>, Loading<Zmm>>(columns);
}

RunBlock kernel_of_rows(std::int64_t columns) {
  switch (compact_row_floats(columns)) {
    case 8:
      return loading_kernel_for<PackedRows<8>>(columns);
    case 16:
      return loading_kernel_for<PackedRows<16>>(columns);
    case 32:
      return loading_kernel_for<PackedRows<32>>(columns);
    default:
      return loading_kernel_for<PackedRows<64>>(columns);
  }
}

SPJIT_COMPACT_TARGET void pack(const DenseSource& b, std::int64_t rows, std::int64_t columns,
                               const PackedLayout& layout, float* to) {
  if (columns <= Ymm::k_floats) {
    const Ymm::Mask mask = Ymm::mask(columns);
    for (std::int64_t row = 0; row < rows; ++row, to += layout.row) {
      Ymm::store(to, Ymm::load(b.row(row), mask));
    }
    return;
  }
  const std::int64_t whole = columns / k_plane_row * k_plane_row;
  const Zmm::Mask mask = Zmm::mask(columns - whole);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    float* plane = to;
    for (std::int64_t j = 0; j < whole; j += k_plane_row, plane += layout.plane) {
      _mm512_store_ps(plane, _mm512_loadu_ps(from + j));
    }
    if (mask != 0) _mm512_store_ps(plane, _mm512_maskz_loadu_ps(mask, from + whole));
    to += layout.row;
  }
}

/// What a vector of zeros has past its row is written over by the next row; past the last row there
/// is room for a vector.
SPJIT_COMPACT_TARGET void pack_pieces(const DenseSource& b, std::int64_t rows,
                                      const PanelPieces& pieces, const PackedLayout& layout,
                                      float* to) {
  static_assert(k_compact_panel_columns > k_plane_row);
  const std::int64_t gap = pieces.columns / k_plane_row * layout.plane;
  const bool has_gap = pieces.columns % k_plane_row != 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    if (has_gap) Zmm::store(to + gap, Zmm::zero());
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const Piece& piece = pieces.all[i];
      const Zmm::Mask mask = Zmm::mask(piece.columns);
      Zmm::store(to + piece.to, Zmm::load(from + piece.from, mask), mask);
    }
    to += layout.row;
  }
}

constexpr Kernels k_kernels = {k_compact_panel_columns,
                               16,
                               in_planes,
                               kernel_for<Packed>,
                               kernel_for<InPlace<false>>,
                               kernel_for<InPlace<true>>,
                               kernel_for<AtPlaces<false>>,
                               kernel_for<AtPlaces<true>>,
                               pack,
                               pack_pieces};
constexpr Kernels k_loading_kernels = {k_compact_panel_columns,
                                       16,
                                       in_rows,
                                       kernel_of_rows,
                                       loading_kernel_for<InPlace<false>>,
                                       loading_kernel_for<InPlace<true>>,
                                       loading_kernel_for<AtPlaces<false>>,
                                       loading_kernel_for<AtPlaces<true>>,
                                       pack,
                                       pack_pieces};

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace avx512

namespace avx2 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX2_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX2_INLINE

using Ymm = Avx2Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 1;
constexpr bool k_fma_broadcasts = false;

#include "kernels/host/loops/compact_rows.inc"

template <class B>
RunBlock kernel_for(std::int64_t columns) {
  return columns <= 8 ? run_block<Ymm, B, 1> : run_block<Ymm, B, 2>;
}

SPJIT_COMPACT_TARGET void pack(const DenseSource& b, std::int64_t rows, std::int64_t columns,
                               const PackedLayout& layout, float* to) {
  const Ymm::Mask first = Ymm::mask(std::min<std::int64_t>(columns, 8));
  const Ymm::Mask second = Ymm::mask(std::max<std::int64_t>(columns - 8, 0));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    Ymm::store(to, Ymm::load(from, first));
    if (columns > 8) Ymm::store(to + 8, Ymm::load(from + 8, second));
    to += layout.row;
  }
}

/// Of one plane. What a vector has past its piece is written over by the next piece or row; past
/// the last row there is room for a vector.
SPJIT_COMPACT_TARGET void pack_pieces(const DenseSource& b, std::int64_t rows,
                                      const PanelPieces& pieces, const PackedLayout& layout,
                                      float* to) {
  static_assert(k_compact_panel_columns > k_plane_row);
  const std::int64_t gap = pieces.columns / 8 * 8;
  const bool has_gap = gap < pieces.columns;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    if (has_gap) Ymm::store(to + gap, Ymm::zero());
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const Piece& piece = pieces.all[i];
      Ymm::store(to + piece.to, Ymm::load(from + piece.from, Ymm::mask(piece.columns)));
    }
    to += layout.row;
  }
}

constexpr Kernels k_kernels = {16,
                               8,
                               in_planes,
                               kernel_for<Packed>,
                               kernel_for<InPlace<false>>,
                               kernel_for<InPlace<true>>,
                               kernel_for<AtPlaces<false>>,
                               kernel_for<AtPlaces<true>>,
                               pack,
                               pack_pieces};

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace avx2

/// Of a product's columns from one on.
PanelPieces pieces_of(const Product& product, std::int64_t first, std::int64_t columns,
                      std::int64_t lanes, const PackedLayout& layout) {
  PanelPieces pieces;
  pieces.columns = columns;
  auto run =
      std::ranges::upper_bound(product.runs, product.first_column + first, {}, &ColumnRun::column) -
      1;
  for (std::int64_t at = 0; at < columns;) {
    const std::int64_t column = product.first_column + first + at;
    const bool is_last = run + 1 == product.runs.end();
    const std::int64_t of_run = is_last ? columns - at : (run + 1)->column - column;
    const std::int64_t of_plane = k_plane_row - at % k_plane_row;
    const std::int64_t count = std::min({of_run, of_plane, columns - at, lanes});
    pieces.all[pieces.count++] = {run->offset + column - run->column,
                                  at / k_plane_row * layout.plane + at % k_plane_row, count};
    at += count;
    if (count == of_run) ++run;
  }
  return pieces;
}

/// What of B is packed: rows of a block, a panel's columns.
struct PackedPart {
  const Product& product;
  std::int64_t first_column;  ///< of the panel
  std::int64_t columns;
  std::int64_t rows;
};

void pack_panel(const Kernels& kernels, const Panel& panel, const PackedPart& part, float* to,
                HostIsa isa) {
  const DenseSource b{panel.b, panel.ldb, panel.places};
  const PackedLayout layout = kernels.layout(part.columns);
  if (!part.product.runs.empty()) {
    const PanelPieces pieces =
        pieces_of(part.product, part.first_column, part.columns, kernels.widest, layout);
    kernels.pack_pieces(b, part.rows, pieces, layout, to);
    return;
  }
  if (!part.product.has_tokens) {
    kernels.pack(b, part.rows, part.columns, layout, to);
    return;
  }
  transpose(IntoPanels{.from = {panel.b, panel.ldb},
                       .rows = part.columns,
                       .columns = part.rows,
                       .to = {to, std::min(k_plane_row, layout.row), layout.row, layout.plane}},
            isa);
}

const Kernels& kernels_of(const CompactCpu& cpu) {
  if (cpu.isa != HostIsa::avx512) return avx2::k_kernels;
  return cpu.loads_weights ? avx512::k_loading_kernels : avx512::k_kernels;
}

/// Whether rows of B are already where they would be packed.
bool is_as_packed(const DenseSource& b, std::int64_t columns, const PackedLayout& layout) {
  const std::uintptr_t alignment = to_size(std::min(layout.row, k_plane_row)) * sizeof(float);
  return b.places == nullptr && b.ld == layout.row && columns == layout.row &&
         reinterpret_cast<std::uintptr_t>(b.data) % alignment == 0;
}

/// Whether rows of C are asked for ahead. Where weights are loaded too, that takes 3 % longer for C
/// that is in L2: not the first time, from n of 129 on not at all (n = 256, in sequence: 0.8 to 0.9
/// of the time with it).
bool fetches_c(const CompactCpu& cpu, std::int64_t n, bool is_first) {
  constexpr std::int64_t k_columns_in_l2 = 128;
  return !cpu.loads_weights || is_first || n > k_columns_in_l2;
}

}  // namespace

void CompactMatrix::run(const Product& operands, const CompactCpu& cpu, float* workspace,
                        const Values* values) const {
  const Part part{this, values};
  run(std::span(&part, 1), operands, cpu, workspace);
}

void CompactMatrix::run(std::span<const Part> parts, const Product& operands, const CompactCpu& cpu,
                        float* workspace) {
  // C is read and written for every block: of so many columns it stays in L2 meanwhile.
  constexpr std::int64_t k_columns_at_once = 256;
  for (std::int64_t first = 0; first < operands.n; first += k_columns_at_once) {
    run_blocks(parts, operands.columns(first, std::min(k_columns_at_once, operands.n - first)), cpu,
               workspace);
  }
}

const CompactMatrix::Block* CompactMatrix::block_at(std::int64_t first_column) const {
  const auto found = std::ranges::lower_bound(blocks_, first_column, {}, &Block::first_column);
  return found != blocks_.end() && found->first_column == first_column ? &*found : nullptr;
}

void CompactMatrix::run_blocks(std::span<const Part> parts, const Product& operands,
                               const CompactCpu& cpu, float* workspace) {
  const Kernels& kernels = kernels_of(cpu);
  std::int64_t end_column = 0;
  for (const Part& part : parts) {
    if (part.matrix->blocks_.empty()) continue;
    end_column = std::max(end_column, part.matrix->blocks_.back().first_column + 1);
  }
  if (end_column == 0) return;
  const std::int64_t block_columns = parts.front().matrix->block_columns_;
  const bool in_place = block_columns > k_most_packed_columns;
  const bool has_runs = !operands.runs.empty();
  for (std::int64_t first_column = 0; first_column < end_column; first_column += block_columns) {
    // The columns pass by while the block is in the caches.
    for (std::int64_t first = 0; first < operands.n; first += kernels.panel_columns) {
      const std::int64_t columns = std::min(kernels.panel_columns, operands.n - first);
      const std::int64_t lanes = columns <= 8 ? 8 : kernels.widest;
      const std::int64_t last = columns - (columns - 1) / lanes * lanes;
      const DenseSource b =
          operands.has_tokens
              ? DenseSource{operands.b + first * operands.ldb + first_column, operands.ldb}
              : operands.rows_of_b().from(first_column, has_runs ? 0 : first);
      const bool is_first = first_column == 0;
      Panel panel{b.data,
                  b.ld,
                  b.places,
                  operands.c + first,
                  operands.ldc,
                  last,
                  fetches_c(cpu, operands.n, is_first)};
      bool is_ready = in_place || (!operands.has_tokens && !has_runs &&
                                   is_as_packed(b, columns, kernels.layout(columns)));
      for (const Part& part : parts) {
        const Block* const block = part.matrix->block_at(first_column);
        if (block == nullptr) continue;
        if (!is_ready) {
          pack_panel(kernels, panel, {operands, first, columns, block->columns}, workspace,
                     cpu.isa);
          panel.b = workspace;
          is_ready = true;
        }
        const CompactMatrix& matrix = *part.matrix;
        const Values& values = part.values == nullptr ? matrix.values_ : *part.values;
        const Streams streams{matrix.slices_.data() + block->first_slice,
                              matrix.slices_.data() + block->end_slice,
                              matrix.offsets_.data() + block->first_step * k_lanes,
                              values.steps.data() + block->first_step * k_lanes,
                              matrix.tail_offsets_.data() + block->first_tail,
                              values.tails.data() + block->first_tail};
        if (in_place) {
          kernels.reading(panel, columns, lanes)(streams, panel, is_first);
        } else {
          kernels.packed(columns)(streams, panel, is_first);
        }
      }
    }
  }
}

}  // namespace spjit
