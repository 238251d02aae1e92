#include "kernels/host/unrolled/host_emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/host/unrolled/segment_arguments.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "kernels/host/unrolled/x86_encoder.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// What a HostSegment is called with, then what its SegmentArguments are loaded to.
constexpr Gpr k_b = Gpr::rdi;
constexpr Gpr k_weights = Gpr::rsi;
constexpr Gpr k_partial = Gpr::rdx;
constexpr Gpr k_arguments = Gpr::rcx;
constexpr Gpr k_c = Gpr::r8;
constexpr Gpr k_ldc = Gpr::r9;
constexpr Gpr k_masks = Gpr::r10;
constexpr Gpr k_scratch = Gpr::rax;

/// Masks that stay in k1 .. k6. k0 means no mask, and wider panels load theirs into k7 store by
/// store.
constexpr std::int64_t k_kept_masks = 6;

/// Units of work, as CancelPace counts them, of a column with its entries and of a segment besides.
constexpr std::int64_t k_column_work = 32;
constexpr std::int64_t k_segment_work = 256;

std::int32_t displacement(std::int64_t bytes) {
  return checked_cast<std::int32_t>(bytes, "bytes from a base register");
}

/// A base register that is moved along so that offsets stay within one-byte displacements. Rows of
/// B may lie any distance apart.
class MovingBase {
 public:
  /// `reach`: offsets in [-reach, reach) of the base have a one-byte displacement.
  MovingBase(Gpr reg, std::int64_t reach) : reg_(reg), reach_(reach) {}

  /// The address of `offset`, good for [offset, offset + extent).
  Address at(X86Encoder& encoder, std::int64_t offset, std::int64_t extent) {
    if (offset < position_ - reach_ || offset + extent > position_ + reach_) {
      const std::int64_t target = offset + reach_;
      move(encoder, target - position_);
      position_ = target;
    }
    return {reg_, displacement(offset - position_)};
  }

 private:
  void move(X86Encoder& encoder, std::int64_t distance) const {
    if (std::in_range<std::int32_t>(distance)) {
      encoder.add(reg_, static_cast<std::int32_t>(distance));
      return;
    }
    encoder.set(k_scratch, distance);
    encoder.add(reg_, k_scratch);
  }

  Gpr reg_;
  std::int64_t reach_;
  std::int64_t position_ = 0;
};

/// One past the last row tile of each segment: neighbours share one while their code is short.
std::vector<std::int64_t> join_tiles(const KernelPlan& plan, const HostTile& tile, HostIsa isa) {
  std::vector<std::int64_t> ends;
  std::int64_t joined_bytes = 0;
  for (std::int64_t t = 0; t < plan.grouping.tiles(); ++t) {
    std::int64_t bytes = 0;
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const PlanSegment part = plan.segment(t, block);
      const std::int64_t nnz =
          plan.entry_ptrs[to_size(part.column_end)] - plan.entry_ptrs[to_size(part.column_begin)];
      bytes = std::max(bytes,
                       estimate_code_bytes(tile, isa, nnz, part.column_end - part.column_begin, 1));
    }
    if (ends.empty() || joined_bytes + bytes > tile.join_bytes) {
      ends.push_back(t);
      joined_bytes = 0;
    }
    joined_bytes += bytes;
    ends.back() = t + 1;
  }
  return ends;
}

/// Emits the segments of one plan into one buffer.
class HostEmission {
 public:
  HostEmission(const KernelPlan& plan, const HostTile& tile, HostIsa isa, std::int64_t b_stride,
               const Cancellation& cancel)
      : plan_(plan),
        tile_(tile),
        pace_(cancel),
        isa_(isa),
        zmm_(isa == HostIsa::avx512),
        b_stride_(b_stride),
        vector_bytes_(lanes_of(isa) * 4),
        encoder_(zmm_ ? X86Encoder::Vectors::zmm : X86Encoder::Vectors::ymm) {}

  HostCode run() {
    code_.weights.reserve(plan_.entry_values.size());
    encoder_.reserve(to_size(checked_add(
        checked_multiply(plan_.nnz(), tile_.nv * 8, "bytes of code"), 4096, "bytes of code")));
    code_.tile_ends = join_tiles(plan_, tile_, isa_);
    TileRange tiles;
    for (const std::int64_t end : code_.tile_ends) {
      tiles = {tiles.end, end};
      for (std::int64_t block = 0; block < plan_.k_blocks; ++block) segment(tiles, block);
    }
    code_.text = std::move(encoder_).take();
    return std::move(code_);
  }

 private:
  int accumulator(std::int64_t row, std::int64_t v) const {
    return static_cast<int>(row * tile_.nv + v);
  }
  int b_register(std::int64_t v) const { return static_cast<int>(tile_.m1 * tile_.nv + v); }
  int weight_register() const { return static_cast<int>(tile_.m1 * tile_.nv + tile_.nv); }

  /// Row tiles of a segment.
  struct TileRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  /// Masked stores of a tile's rows, to be emitted behind the code that mostly runs.
  struct MaskedStores {
    PendingJump jump;
    std::size_t back = 0;  ///< where the code goes on
    std::span<const std::int32_t> rows;
  };

  void segment(const TileRange& tiles, std::int64_t block) {
    encoder_.align(to_size(k_function_alignment));
    code_.segment_offsets.push_back(static_cast<std::int64_t>(encoder_.size()));
    segment_weights_ = static_cast<std::int64_t>(code_.weights.size());
    code_.weight_offsets.push_back(segment_weights_);
    // Reach of disp8: 128 units, of a vector for B and of a float for weights (EVEX) or of a byte.
    b_base_ = MovingBase(k_b, zmm_ ? 128 * 64 : 128);
    weight_base_ = MovingBase(k_weights, zmm_ ? 128 * 4 : 128);
    pace_.spend(k_segment_work);

    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const PlanSegment part = plan_.segment(tile, block);
      const std::int64_t first_partial = (tile - tiles.begin) * tile_.m1 * tile_.nv;
      begin(part, first_partial);
      for (std::int64_t column = part.column_begin; column < part.column_end; ++column) {
        pace_.spend(k_column_work);
        this->column(part, static_cast<std::size_t>(column));
      }
      end(part, first_partial, tile == tiles.begin);
    }
    encoder_.zero_upper();
    encoder_.ret();
    for (const MaskedStores& stores : masked_) store_masked(stores);
    masked_.clear();
  }

  Address partial(std::int64_t vector) const {
    return {k_partial, displacement(vector * vector_bytes_)};
  }

  /// Accumulators start from zero, or from the partial sums at `first_partial`. [vectors]
  void begin(const PlanSegment& segment, std::int64_t first_partial) {
    const std::int64_t vectors = std::ssize(plan_.tile_rows(segment.tile)) * tile_.nv;
    for (std::int64_t vector = 0; vector < vectors; ++vector) {
      if (segment.k_block == 0) {
        encoder_.zero(static_cast<int>(vector));
      } else {
        encoder_.load(static_cast<int>(vector), partial(first_partial + vector));
      }
    }
  }

  void end(const PlanSegment& segment, std::int64_t first_partial, bool is_first) {
    const std::span<const std::int32_t> rows = plan_.tile_rows(segment.tile);
    if (segment.k_block + 1 < plan_.k_blocks) {
      for (std::int64_t vector = 0; vector < std::ssize(rows) * tile_.nv; ++vector) {
        encoder_.store(partial(first_partial + vector), static_cast<int>(vector));
      }
      return;
    }
    if (is_first) {
      encoder_.load(k_masks, {k_arguments, segment_offset::k_masks});
      encoder_.load(k_ldc, {k_arguments, segment_offset::k_ldc_bytes});
      encoder_.load(k_c, {k_arguments, segment_offset::k_c});
    }
    encoder_.test(k_masks);
    const PendingJump jump = encoder_.jump_if_not_zero();
    store_rows(rows, false);
    masked_.push_back({jump, encoder_.size(), rows});
  }

  void store_masked(const MaskedStores& stores) {
    encoder_.bind(stores.jump);
    // The panel's registers of B are free by now; AVX2 keeps its masks there.
    for (std::int64_t v = 0; v < tile_.nv; ++v) {
      if (!zmm_) {
        encoder_.load(b_register(v), {k_masks, displacement(vector_bytes_ * v)});
      } else if (v < k_kept_masks) {
        load_mask(v);
      }
    }
    store_rows(stores.rows, true);
    encoder_.jump_back(stores.back);
  }

  int mask_register(std::int64_t v) const {
    if (!zmm_) return b_register(v);
    return static_cast<int>(v < k_kept_masks ? v : k_kept_masks) + 1;
  }

  void load_mask(std::int64_t v) {
    encoder_.load_mask(mask_register(v), {k_masks, displacement(2 * v)});
  }

  void store_rows(std::span<const std::int32_t> rows, bool masked) {
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      store_row(row, rows[static_cast<std::size_t>(row)], masked);
    }
  }

  /// The one place that stores a row of C. An epilogue changes its accumulators here, vector by
  /// vector, before they are stored: with what later fields at k_arguments give, in
  /// the registers of B, which are free (AVX2: unless `masked`), and of a weight.
  void store_row(std::int64_t row, std::int32_t row_of_c, bool masked) {
    encoder_.multiply(k_scratch, k_ldc, row_of_c);
    for (std::int64_t v = 0; v < tile_.nv; ++v) {
      const Address to{k_c, displacement(v * vector_bytes_), true, k_scratch};
      if (masked) {
        if (zmm_ && v >= k_kept_masks) load_mask(v);
        encoder_.store_masked(to, accumulator(row, v), mask_register(v));
      } else if (tile_.stream_c) {
        encoder_.store_streaming(to, accumulator(row, v));
      } else {
        encoder_.store(to, accumulator(row, v));
      }
    }
  }

  void column(const PlanSegment& segment, std::size_t column) {
    const auto first = static_cast<std::size_t>(plan_.entry_ptrs[column]);
    const auto count = static_cast<std::size_t>(plan_.entry_ptrs[column + 1]) - first;
    const std::int64_t row_of_b = plan_.columns[column] - segment.k_block * plan_.k_block;
    const Address b =
        b_base_.at(encoder_, checked_multiply(row_of_b, b_stride_, "bytes to a row of B"),
                   tile_.nv * vector_bytes_);
    if (static_cast<std::int64_t>(count) <= tile_.memory_rows) {
      for (std::size_t i = 0; i < count; ++i) entry_from_memory(first + i, b);
      return;
    }
    for (std::int64_t v = 0; v < tile_.nv; ++v) encoder_.load(b_register(v), panel(b, v));
    const std::int64_t in_registers = weights_in_registers(static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      entry_from_registers(first + i, static_cast<std::int64_t>(i) < in_registers);
    }
  }

  /// How many of a column's weights go through a register.
  std::int64_t weights_in_registers(std::int64_t count) const {
    if (!zmm_ || tile_.form == WeightForm::register_) return count;
    if (tile_.form != WeightForm::balanced || tile_.nv == 1) return 0;
    // loads = nv (B) + x + nv * (count - x) <= nv * count FMAs from x = nv / (nv - 1) on
    return std::min(count, (tile_.nv + tile_.nv - 2) / (tile_.nv - 1));
  }

  Address panel(const Address& b, std::int64_t v) const {
    return {b.base, displacement(b.disp + v * vector_bytes_)};
  }

  Address next_weight(std::size_t entry) {
    const auto offset = (static_cast<std::int64_t>(code_.weights.size()) - segment_weights_) * 4;
    code_.weights.push_back(plan_.entry_values[entry]);
    return weight_base_.at(encoder_, offset, 4);
  }

  void entry_from_memory(std::size_t entry, const Address& b) {
    const std::int64_t row = plan_.entry_rows[entry];
    encoder_.broadcast(weight_register(), next_weight(entry));
    for (std::int64_t v = 0; v < tile_.nv; ++v) {
      encoder_.fma(accumulator(row, v), weight_register(), panel(b, v));
    }
  }

  void entry_from_registers(std::size_t entry, bool weight_in_register) {
    const std::int64_t row = plan_.entry_rows[entry];
    const Address weight = next_weight(entry);
    if (weight_in_register) encoder_.broadcast(weight_register(), weight);
    for (std::int64_t v = 0; v < tile_.nv; ++v) {
      if (weight_in_register) {
        encoder_.fma(accumulator(row, v), weight_register(), b_register(v));
      } else {
        encoder_.fma_broadcast(accumulator(row, v), b_register(v), weight);
      }
    }
  }

  const KernelPlan& plan_;
  const HostTile& tile_;
  CancelPace pace_;
  HostIsa isa_;
  bool zmm_;
  std::int64_t b_stride_;
  std::int64_t vector_bytes_;
  X86Encoder encoder_;
  MovingBase b_base_{k_b, 1};
  MovingBase weight_base_{k_weights, 1};
  std::int64_t segment_weights_ = 0;
  std::vector<MaskedStores> masked_;
  HostCode code_;
};

void check(const HostTile& tile, HostIsa isa, std::int64_t b_stride_bytes) {
  if (isa == HostIsa::generic) {
    throw InvalidArgument("the generic target has no direct encoder; expected avx512 or avx2");
  }
  if (tile.m1 < 1 || tile.nv < 1 || registers_needed(tile) > registers_of(isa)) {
    throw InvalidArgument(fmt::format("tile {} needs {} vector registers; {} has {}",
                                      to_string(tile), registers_needed(tile), to_string(isa),
                                      registers_of(isa)));
  }
  constexpr std::int64_t k_max_stride = k_max_built_in_ldb * 4;
  if (b_stride_bytes < 4 || b_stride_bytes > k_max_stride) {
    throw InvalidArgument(fmt::format("rows of B are {} bytes apart; expected 4 to {}",
                                      b_stride_bytes, k_max_stride));
  }
}

}  // namespace

HostCode emit_host(const KernelPlan& plan, const HostTile& tile, HostIsa isa,
                   std::int64_t b_stride_bytes, const Cancellation& cancel) {
  check(tile, isa, b_stride_bytes);
  return HostEmission(plan, tile, isa, b_stride_bytes, cancel).run();
}

}  // namespace spjit
