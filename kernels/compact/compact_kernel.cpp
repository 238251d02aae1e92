#include "kernels/compact/compact_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/simd.hpp"
#include "kernels/transpose.hpp"
#include "spjit/error.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spjit {
namespace {

constexpr std::size_t k_lanes = CompactMatrix::k_lanes;
/// Floats of a row of packed B in a plane: a cache line, of which a narrow panel fills half.
constexpr std::int64_t k_plane_row = 16;
/// Floats from one plane of sixteen columns to the next.
constexpr std::int64_t k_plane = CompactMatrix::k_most_packed_columns * k_plane_row;
/// A column number is stored times eight, which addressing multiplies by eight again: 64 bytes.
constexpr int k_offset_shift = 3;

/// How far ahead of their use values are asked for [bytes]; column numbers, which are half as
/// large, half as far. A step is so much work that few loads of what comes next are under way by
/// themselves: from memory n = 32 takes 1.5 times as long without, n = 64 1.2 times, n = 8 1.1
/// times.
constexpr std::ptrdiff_t k_values_ahead = 4096;

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
};

using RunBlock = void (*)(Streams, const Panel&, bool);

/// Columns of a panel, at most a vector, that lie together in a row of B and in a plane.
struct Piece {
  std::int64_t from;  ///< floats from where the row begins
  std::int64_t to;    ///< the same of a packed row
  std::int64_t columns;
};

/// Of all columns of a panel, by column.
struct Pieces {
  std::array<Piece, to_size(k_compact_panel_columns)> all;
  std::size_t count = 0;
  std::int64_t columns = 0;
};

/// What an instruction set has.
struct Kernels {
  std::int64_t panel_columns;
  std::int64_t widest;  ///< lanes of vectors of a panel that is not narrow
  /// Of a panel of so many columns.
  RunBlock (*packed)(std::int64_t columns);
  RunBlock (*in_place)(std::int64_t columns);
  RunBlock (*in_place_masked)(std::int64_t columns);
  RunBlock (*at_places)(std::int64_t columns);
  RunBlock (*at_places_masked)(std::int64_t columns);
  /// Copies rows of B into planes of sixteen columns, with zeros past `columns` in the last one.
  void (*pack)(const DenseSource& b, std::int64_t rows, std::int64_t columns, float* to);
  /// The same from pieces.
  void (*pack_pieces)(const DenseSource& b, std::int64_t rows, const Pieces& pieces, float* to);

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

#include "kernels/compact/compact_rows.inc"

template <class B>
RunBlock kernel_for(std::int64_t columns) {
  if (columns <= 8) return run_block<Ymm, B, 1>;
  if (columns <= 16) return run_block<Zmm, B, 1>;
  if (columns <= 32) return run_block<Zmm, B, 2>;
  if (columns <= 48) return run_block<Zmm, B, 3>;
  return run_block<Zmm, B, 4>;
}

SPJIT_COMPACT_TARGET void pack(const DenseSource& b, std::int64_t rows, std::int64_t columns,
                               float* to) {
  const std::int64_t whole = columns / k_plane_row * k_plane_row;
  const auto mask = static_cast<__mmask16>((1U << (columns - whole)) - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    float* plane = to;
    for (std::int64_t j = 0; j < whole; j += k_plane_row, plane += k_plane) {
      _mm512_store_ps(plane, _mm512_loadu_ps(from + j));
    }
    if (mask != 0) _mm512_store_ps(plane, _mm512_maskz_loadu_ps(mask, from + whole));
    to += k_plane_row;
  }
}

SPJIT_COMPACT_TARGET void pack_pieces(const DenseSource& b, std::int64_t rows, const Pieces& pieces,
                                      float* to) {
  float* const last = to + pieces.columns / k_plane_row * k_plane;
  const bool has_gap = pieces.columns % k_plane_row != 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    if (has_gap) Zmm::store(last + row * k_plane_row, Zmm::zero());
    for (std::size_t i = 0; i < pieces.count; ++i) {
      const Piece& piece = pieces.all[i];
      const Zmm::Mask mask = Zmm::mask(piece.columns);
      Zmm::store(to + piece.to, Zmm::load(from + piece.from, mask), mask);
    }
    to += k_plane_row;
  }
}

constexpr Kernels k_kernels = {k_compact_panel_columns,
                               16,
                               kernel_for<Packed>,
                               kernel_for<InPlace<false>>,
                               kernel_for<InPlace<true>>,
                               kernel_for<AtPlaces<false>>,
                               kernel_for<AtPlaces<true>>,
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

#include "kernels/compact/compact_rows.inc"

template <class B>
RunBlock kernel_for(std::int64_t columns) {
  return columns <= 8 ? run_block<Ymm, B, 1> : run_block<Ymm, B, 2>;
}

SPJIT_COMPACT_TARGET void pack(const DenseSource& b, std::int64_t rows, std::int64_t columns,
                               float* to) {
  const Ymm::Mask first = Ymm::mask(std::min<std::int64_t>(columns, 8));
  const Ymm::Mask second = Ymm::mask(std::max<std::int64_t>(columns - 8, 0));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = b.row(row);
    Ymm::store(to, Ymm::load(from, first));
    if (columns > 8) Ymm::store(to + 8, Ymm::load(from + 8, second));
    to += k_plane_row;
  }
}

/// Of one plane. What a vector has past its piece is written over by the next piece or row; past
/// the last row there is room for a vector.
SPJIT_COMPACT_TARGET void pack_pieces(const DenseSource& b, std::int64_t rows, const Pieces& pieces,
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
    to += k_plane_row;
  }
}

constexpr Kernels k_kernels = {16,
                               8,
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
Pieces pieces_of(const Product& product, std::int64_t first, std::int64_t columns,
                 std::int64_t lanes) {
  Pieces pieces;
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
                                  at / k_plane_row * k_plane + at % k_plane_row, count};
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
  if (!part.product.runs.empty()) {
    kernels.pack_pieces(
        b, part.rows, pieces_of(part.product, part.first_column, part.columns, kernels.widest), to);
    return;
  }
  if (!part.product.has_tokens) {
    kernels.pack(b, part.rows, part.columns, to);
    return;
  }
  transpose(IntoPanels{.from = {panel.b, panel.ldb},
                       .rows = part.columns,
                       .columns = part.rows,
                       .to = {to, k_plane_row, k_plane_row, k_plane}},
            isa);
}

const Kernels& kernels_of(HostIsa isa) {
  return isa == HostIsa::avx512 ? avx512::k_kernels : avx2::k_kernels;
}

}  // namespace

std::int64_t compact_block_columns(const CsrView& matrix, HostIsa isa, const Extent& n) noexcept {
  const double entries = entries_a_column(matrix.nnz(), matrix.cols);
  const double rows = std::max(as_double(matrix.rows), 1.0);
  // Further apart rows of B share too few sets of the caches.
  constexpr std::int64_t k_any = 256;
  if (n.value > k_plane_row && n.value < k_far_columns && entries < k_few_entries_a_column) {
    return CompactMatrix::k_most_block_columns;
  }
  const bool wide = isa == HostIsa::avx512 && n.value >= k_compact_panel_columns;
  const bool suits_any = isa == HostIsa::avx512 && entries / rows >= 0.07 && entries / rows < 0.15;
  if (n.runtime && suits_any) return k_any;
  if (entries / rows < (wide ? 0.07 : 0.15)) return CompactMatrix::k_most_packed_columns;
  return wide ? 128 : 256;
}

CompactMatrix::CompactMatrix(const CsrView& matrix, RowRange rows, std::int64_t block_columns,
                             const Cancellation& cancel)
    : block_columns_(std::clamp<std::int64_t>(block_columns, 1, k_most_block_columns)) {
  CancelPace pace(cancel);
  const std::vector<std::vector<Lane>> lanes = lanes_by_block(matrix, rows, pace);
  const auto nnz =
      to_size(matrix.row_ptrs[to_size(rows.end)] - matrix.row_ptrs[to_size(rows.begin)]);
  offsets_.reserve(nnz);
  std::vector<Lane> sorted;
  for (std::size_t index = 0; index < lanes.size(); ++index) {
    if (lanes[index].empty()) continue;
    const std::int64_t first = static_cast<std::int64_t>(index) * block_columns_;
    Block block{.first_column = first,
                .columns = std::min(block_columns_, matrix.cols - first),
                .first_slice = slices_.size(),
                .end_slice = 0,
                .first_step = offsets_.size() / k_lanes,
                .first_tail = tail_offsets_.size()};
    sort_by_length(lanes[index], block_columns_, sorted);
    for (std::size_t begin = 0; begin < sorted.size(); begin += k_lanes) {
      const std::size_t taken = std::min(k_lanes, sorted.size() - begin);
      pace.spend(static_cast<std::int64_t>(k_lanes * (sorted[begin].end - sorted[begin].begin)) +
                 1);
      add_slice(matrix, first, std::span(sorted).subspan(begin, taken));
    }
    block.end_slice = slices_.size();
    blocks_.push_back(block);
  }
  if (matrix.has_values()) values_ = arrange(matrix.values);
}

/// The rows that have entries in each block; in the first one all rows. Each entry is seen once.
std::vector<std::vector<CompactMatrix::Lane>> CompactMatrix::lanes_by_block(
    const CsrView& matrix, RowRange rows, CancelPace& pace) const {
  const std::int64_t blocks = ceil_div(std::max<std::int64_t>(matrix.cols, 1), block_columns_);
  std::vector<std::vector<Lane>> lanes(to_size(blocks));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    auto entry = to_size(matrix.row_ptrs[to_size(row)]);
    const auto end = to_size(matrix.row_ptrs[to_size(row) + 1]);
    pace.spend(static_cast<std::int64_t>(end - entry) + 1);
    std::int64_t block = 0;
    do {
      const std::size_t begin = entry;
      const std::int64_t past = (block + 1) * block_columns_;
      std::int64_t column = past - block_columns_ - 1;
      while (entry < end && matrix.col_idxs[entry] < past) {
        if (matrix.col_idxs[entry] <= column) {
          throw Error(fmt::format("the columns of row {} of A do not ascend", row));
        }
        column = matrix.col_idxs[entry++];
      }
      if (begin < entry || block == 0) {
        // A matrix has at most 2^31 - 1 rows.
        lanes[to_size(block)].push_back({static_cast<std::int32_t>(row), begin, entry});
      }
      if (entry < end)
        block = std::max<std::int64_t>(matrix.col_idxs[entry] / block_columns_, block);
    } while (entry < end);
  }
  return lanes;
}

/// Longest first, by counting; rows of one length stay in their order.
void CompactMatrix::sort_by_length(std::span<const Lane> lanes, std::int64_t longest,
                                   std::vector<Lane>& sorted) {
  std::vector<std::size_t> starts(to_size(longest) + 2, 0);
  const auto place = [&](const Lane& lane) { return to_size(longest) - (lane.end - lane.begin); };
  for (const Lane& lane : lanes) ++starts[place(lane) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  sorted.resize(lanes.size());
  for (const Lane& lane : lanes) sorted[starts[place(lane)]++] = lane;
}

/// Numbers of entries and columns of a block fit 16 bits: there are at most k_most_block_columns.
void CompactMatrix::add_slice(const CsrView& matrix, std::int64_t first_column,
                              std::span<const Lane> lanes) {
  const auto offset_of = [&](std::size_t entry) {
    return static_cast<std::uint16_t>((matrix.col_idxs[entry] - first_column) << k_offset_shift);
  };
  const std::size_t steps = lanes.back().end - lanes.back().begin;  // the last is the shortest
  Slice slice{};
  slice.steps = static_cast<std::uint16_t>(steps);
  slice.lanes = static_cast<std::uint16_t>(lanes.size());
  std::array<std::int64_t, k_lanes>& entries = entries_.emplace_back();
  const std::size_t place = offsets_.size();
  offsets_.resize(place + steps * k_lanes);
  for (std::size_t lane = 0; lane < k_lanes; ++lane) {
    const Lane& from = lanes[std::min(lane, lanes.size() - 1)];
    slice.rows[lane] = from.row;
    entries[lane] = static_cast<std::int64_t>(from.begin);
    for (std::size_t step = 0; step < steps; ++step) {
      offsets_[place + step * k_lanes + lane] = offset_of(from.begin + step);
    }
    if (lane >= lanes.size()) continue;
    slice.tails[lane] = static_cast<std::uint16_t>(from.end - from.begin - steps);
    for (std::size_t entry = from.begin + steps; entry < from.end; ++entry) {
      tail_offsets_.push_back(offset_of(entry));
    }
  }
  slices_.push_back(slice);
}

CompactMatrix::Values CompactMatrix::arrange(std::span<const float> values) const {
  Values arranged{FloatBuffer(offsets_.size()), {}};
  arranged.tails.reserve(tail_offsets_.size());
  float* to = arranged.steps.data();
  for (std::size_t index = 0; index < slices_.size(); ++index) {
    const Slice& slice = slices_[index];
    for (std::size_t lane = 0; lane < k_lanes; ++lane) {
      const float* from = values.data() + entries_[index][lane];
      for (std::size_t step = 0; step < slice.steps; ++step) to[step * k_lanes + lane] = from[step];
      from += slice.steps;
      arranged.tails.insert(arranged.tails.end(), from, from + slice.tails[lane]);
    }
    to += slice.steps * k_lanes;
  }
  return arranged;
}

std::int64_t CompactMatrix::bytes() const noexcept {
  return static_cast<std::int64_t>(slices_.size() * sizeof(Slice) +
                                   offsets_.size() * (sizeof(std::uint16_t) + sizeof(float)) +
                                   tail_offsets_.size() * (sizeof(std::uint16_t) + sizeof(float)));
}

void CompactMatrix::run(const Product& operands, HostIsa isa, float* workspace,
                        const Values* values) const {
  const Part part{this, values};
  run(std::span(&part, 1), operands, isa, workspace);
}

void CompactMatrix::run(std::span<const Part> parts, const Product& operands, HostIsa isa,
                        float* workspace) {
  // C is read and written for every block: of so many columns it stays in L2 meanwhile.
  constexpr std::int64_t k_columns_at_once = 256;
  for (std::int64_t first = 0; first < operands.n; first += k_columns_at_once) {
    run_blocks(parts, operands.columns(first, std::min(k_columns_at_once, operands.n - first)), isa,
               workspace);
  }
}

const CompactMatrix::Block* CompactMatrix::block_at(std::int64_t first_column) const {
  const auto found = std::ranges::lower_bound(blocks_, first_column, {}, &Block::first_column);
  return found != blocks_.end() && found->first_column == first_column ? &*found : nullptr;
}

void CompactMatrix::run_blocks(std::span<const Part> parts, const Product& operands, HostIsa isa,
                               float* workspace) {
  const Kernels& kernels = kernels_of(isa);
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
      Panel panel{b.data, b.ld, b.places, operands.c + first, operands.ldc, last};
      const bool is_packed = !operands.has_tokens && !has_runs && b.places == nullptr &&
                             operands.ldb == k_plane_row && columns == k_plane_row;
      bool is_ready = in_place || is_packed;
      for (const Part& part : parts) {
        const Block* const block = part.matrix->block_at(first_column);
        if (block == nullptr) continue;
        if (!is_ready) {
          pack_panel(kernels, panel, {operands, first, columns, block->columns}, workspace, isa);
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
        const bool is_first = first_column == 0;
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
