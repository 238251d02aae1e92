#include "kernels/host/loops/compact_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/loops/compact_packing.hpp"
#include "kernels/host/loops/compact_panels.hpp"
#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spjit {
namespace compact {
namespace {

namespace avx512 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX512_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX512_INLINE

using Zmm = Avx512Zmm;
using Ymm = Avx512Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 2;
constexpr bool k_fma_broadcasts = true;
constexpr bool k_has_masks = true;

#include "kernels/host/loops/compact_rows.inc"
#include "kernels/host/loops/compact_wide.inc"

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
  return of_packed_rows(columns,
                        [&]<class B>(B /*rows*/) { return loading_kernel_for<B>(columns); });
}

template <class B>
RunBlock wide_kernel_for(std::int64_t columns) {
  if (columns <= 8) return run_block_of_rows<Ymm, B, 1>;
  if (columns <= 16) return run_block_of_rows<Zmm, B, 1>;
  if (columns <= 32) return run_block_of_rows<Zmm, B, 2>;
  if (columns <= 48) return run_block_of_rows<Zmm, B, 3>;
  return run_block_of_rows<Zmm, B, 4>;
}

RunBlock wide_kernel_of_rows(std::int64_t columns) {
  return of_packed_rows(columns, [&]<class B>(B /*rows*/) { return wide_kernel_for<B>(columns); });
}

constexpr Kernels k_kernels = {whole_panels,
                               16,
                               in_planes,
                               kernel_for<Packed>,
                               kernel_for<InPlace<false>>,
                               kernel_for<InPlace<true>>,
                               kernel_for<AtPlaces<false>>,
                               kernel_for<AtPlaces<true>>};
constexpr Kernels k_loading_kernels = {whole_panels,
                                       16,
                                       in_rows,
                                       kernel_of_rows,
                                       loading_kernel_for<InPlace<false>>,
                                       loading_kernel_for<InPlace<true>>,
                                       loading_kernel_for<AtPlaces<false>>,
                                       loading_kernel_for<AtPlaces<true>>};

constexpr Kernels k_wide_kernels = {even_panels<Zmm::k_floats>,
                                    16,
                                    in_rows,
                                    wide_kernel_of_rows,
                                    wide_kernel_for<InPlace<false>>,
                                    wide_kernel_for<InPlace<true>>,
                                    wide_kernel_for<AtPlaces<false>>,
                                    wide_kernel_for<AtPlaces<true>>};

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace avx512

namespace avx2 {
#define SPJIT_COMPACT_TARGET SPJIT_AVX2_TARGET
#define SPJIT_COMPACT_INLINE SPJIT_AVX2_INLINE

using Ymm = Avx2Ymm;
constexpr std::size_t k_vectors_of_eight_rows = 1;
constexpr bool k_fma_broadcasts = false;
constexpr bool k_has_masks = false;

#include "kernels/host/loops/compact_rows.inc"
#include "kernels/host/loops/compact_wide.inc"

template <class B>
RunBlock kernel_for(std::int64_t columns) {
  return columns <= 8 ? run_block<Ymm, B, 1> : run_block<Ymm, B, 2>;
}

template <class B>
RunBlock wide_kernel_for(std::int64_t columns) {
  static constexpr std::array<RunBlock, 8> k_of_vectors = {
      run_block_of_rows<Ymm, B, 1>, run_block_of_rows<Ymm, B, 2>, run_block_of_rows<Ymm, B, 3>,
      run_block_of_rows<Ymm, B, 4>, run_block_of_rows<Ymm, B, 5>, run_block_of_rows<Ymm, B, 6>,
      run_block_of_rows<Ymm, B, 7>, run_block_of_rows<Ymm, B, 8>};
  return k_of_vectors[to_size(ceil_div(columns, Ymm::k_floats) - 1)];
}

RunBlock wide_kernel_of_rows(std::int64_t columns) {
  return of_packed_rows(columns, [&]<class B>(B /*rows*/) { return wide_kernel_for<B>(columns); });
}

constexpr Kernels k_kernels = {narrow_panels,
                               8,
                               in_planes,
                               kernel_for<Packed>,
                               kernel_for<InPlace<false>>,
                               kernel_for<InPlace<true>>,
                               kernel_for<AtPlaces<false>>,
                               kernel_for<AtPlaces<true>>};
constexpr Kernels k_wide_kernels = {even_panels<Ymm::k_floats>,
                                    8,
                                    in_rows,
                                    wide_kernel_of_rows,
                                    wide_kernel_for<InPlace<false>>,
                                    wide_kernel_for<InPlace<true>>,
                                    wide_kernel_for<AtPlaces<false>>,
                                    wide_kernel_for<AtPlaces<true>>};

#undef SPJIT_COMPACT_TARGET
#undef SPJIT_COMPACT_INLINE
}  // namespace avx2

const Kernels& kernels_of(const CompactCpu& cpu, HeldType held, CompactOrder order) {
  if (held != HeldType::f32) return narrow_kernels_of(cpu.isa, held, order);
  const bool by_rows = order == CompactOrder::rows;
  if (cpu.isa != HostIsa::avx512) return by_rows ? avx2::k_wide_kernels : avx2::k_kernels;
  if (by_rows) return avx512::k_wide_kernels;
  return cpu.loads_weights ? avx512::k_loading_kernels : avx512::k_kernels;
}

/// Whether rows of C are asked for ahead. Where weights are loaded too, that takes 3 % longer for C
/// that is in L2: not the first time, from n of 129 on not at all (n = 256, in sequence: 0.8 to 0.9
/// of the time with it).
bool fetches_c(const CompactCpu& cpu, std::int64_t n, bool is_first) {
  constexpr std::int64_t k_columns_in_l2 = 128;
  return !cpu.loads_weights || is_first || n > k_columns_in_l2;
}

}  // namespace
}  // namespace compact

void CompactMatrix::run(const Product& operands, const CompactCpu& cpu, float* workspace,
                        const Values* values) const {
  const Part part{this, values};
  run(std::span(&part, 1), operands, cpu, workspace);
}

void CompactMatrix::run(std::span<const Part> parts, const Product& operands, const CompactCpu& cpu,
                        float* workspace) {
  // C is read and written for every block: of so many columns it stays in L2 meanwhile.
  constexpr std::int64_t k_columns_at_once = 256;
  if (parts.empty() || operands.n <= 0) return;  // A without rows has no parts
  // Of nearly as many columns each, in whole panels.
  const std::int64_t groups = ceil_div(operands.n, k_columns_at_once);
  const std::int64_t columns = round_up(ceil_div(operands.n, groups), k_compact_panel_columns);
  for (std::int64_t first = 0; first < operands.n; first += columns) {
    run_blocks(parts, operands.columns(first, std::min(columns, operands.n - first)), cpu,
               workspace);
  }
}

const CompactMatrix::Block* CompactMatrix::block_at(std::int64_t first_column) const {
  const auto found = std::ranges::lower_bound(blocks_, first_column, {}, &Block::first_column);
  return found != blocks_.end() && found->first_column == first_column ? &*found : nullptr;
}

const float* CompactMatrix::scales_of(const Block& block) const noexcept {
  const bool by_rows = order_ == CompactOrder::rows;
  return scales_.data() + (by_rows ? block.first_row : block.first_slice * k_lanes);
}

void CompactMatrix::run_blocks(std::span<const Part> parts, const Product& operands,
                               const CompactCpu& cpu, float* workspace) {
  const CompactMatrix& any = *parts.front().matrix;
  const compact::Kernels& kernels = compact::kernels_of(cpu, any.held_, any.order_);
  std::int64_t end_column = 0;
  for (const Part& part : parts) {
    const std::vector<Block>& blocks = part.matrix->blocks_;
    if (!blocks.empty()) end_column = std::max(end_column, blocks.back().first_column + 1);
  }
  if (end_column == 0) return;
  const std::int64_t block_columns = any.block_columns_;
  const bool in_place = block_columns > k_most_packed_columns;
  const bool has_runs = !operands.runs.empty();
  const std::int64_t panel_columns = kernels.panel_columns(operands.n);
  for (std::int64_t first_column = 0; first_column < end_column; first_column += block_columns) {
    // The columns pass by while the block is in the caches.
    for (std::int64_t first = 0; first < operands.n; first += panel_columns) {
      const std::int64_t columns = std::min(panel_columns, operands.n - first);
      const std::int64_t lanes = columns <= 8 ? 8 : kernels.widest;
      const std::int64_t last = columns - (columns - 1) / lanes * lanes;
      const DenseSource b =
          operands.has_tokens
              ? DenseSource{operands.b + first * operands.ldb + first_column, operands.ldb}
              : operands.rows_of_b().from(first_column, has_runs ? 0 : first);
      const bool is_first = first_column == 0;
      compact::Panel panel{b.data,
                           b.ld,
                           b.places,
                           operands.c + first,
                           operands.ldc,
                           last,
                           compact::fetches_c(cpu, operands.n, is_first)};
      bool is_ready = in_place || (!operands.has_tokens && !has_runs &&
                                   is_as_packed(b, columns, kernels.layout(columns)));
      for (const Part& part : parts) {
        const Block* const block = part.matrix->block_at(first_column);
        if (block == nullptr) continue;
        if (!is_ready) {
          pack_panel({operands, b, first, columns, block->columns}, kernels.layout(columns),
                     cpu.isa, workspace);
          panel.b = workspace;
          is_ready = true;
        }
        const CompactMatrix& matrix = *part.matrix;
        const Values& values = part.values == nullptr ? matrix.values_ : *part.values;
        const compact::Streams streams{matrix.slices_.data() + block->first_slice,
                                       matrix.slices_.data() + block->end_slice,
                                       matrix.rows_.data() + block->first_row,
                                       matrix.rows_.data() + block->end_row,
                                       matrix.offsets_.data() + block->first_entry,
                                       values.steps.from(block->first_entry),
                                       matrix.tail_offsets_.data() + block->first_tail,
                                       values.tails.data() + block->first_tail,
                                       matrix.scales_of(*block)};
        const compact::RunBlock run = !matrix.scales_.empty() ? kernels.packed_groups(columns)
                                      : in_place ? kernels.reading(panel, columns, lanes)
                                                 : kernels.packed(columns);
        run(streams, panel, is_first);
      }
    }
  }
}

}  // namespace spjit
