#include "kernels/host/unrolled/host_executor.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "kernels/host/unrolled/host_share.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace spjit {
namespace {

/// Asks for the cache line at `address` in L2; never faults. Not __builtin_prefetch: gcc 12 takes a
/// function that does nothing else for one without effects and drops the calls to it.
void prefetch_to_l2(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 0, 2);
#endif
}

/// Brings the cache line at `address`, which must be readable, by a load: code that is read as data
/// comes at the speed of data.
void read_line(const char* address) noexcept {
  static_cast<void>(*static_cast<const volatile char*>(address));
}

constexpr std::int64_t k_max_nv = 16;

/// What calls of segments for one panel have in common.
struct PanelCall {
  const float* b;  ///< the panel's first row
  SegmentArguments arguments;
};

/// The first panels of a group, which come again with every tile. Not initialized: in a run of half
/// a microsecond that would show.
constexpr std::int64_t k_kept_calls = 16;
using PanelCalls = std::array<PanelCall, k_kept_calls>;

/// Lane masks for one panel of a program, the first `columns` lanes on, in the form that its
/// segments take. Only that form is written: in a run of half a microsecond the other would show.
class LaneMasks {
 public:
  LaneMasks(const HostProgram& program, std::int64_t columns) : bits_wanted_(program.lanes == 16) {
    if (bits_wanted_) {
      for (std::int64_t v = 0; v < program.nv; ++v) {
        const std::int64_t left = std::clamp<std::int64_t>(columns - v * 16, 0, 16);
        bits_[to_size(v)] = static_cast<std::uint16_t>((1U << left) - 1U);
      }
      return;
    }
    for (std::int64_t lane = 0; lane < program.panel_width(); ++lane) {
      words_[to_size(lane)] = lane < columns ? ~0U : 0U;
    }
  }

  const void* data() const {
    return bits_wanted_ ? static_cast<const void*>(bits_.data())
                        : static_cast<const void*>(words_.data());
  }

 private:
  bool bits_wanted_;
  alignas(64) std::array<std::uint32_t, k_max_nv * 8> words_;  // AVX2 and generic
  std::array<std::uint16_t, k_max_nv> bits_;                   // AVX-512
};

/// Streaming stores are ordered with nothing; this orders them before what the caller does next.
void fence_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

const float* weights_of_run(const HostProgram& program, const Product& operands) {
  if (operands.values == nullptr) return program.weights;
  return dynamic_cast<const UnrolledValues&>(*operands.values).weights.data();
}

/// One run of a program: the operands and what follows from them.
class ProgramRun {
 public:
  ProgramRun(const HostProgram& program, const Product& operands)
      : program_(program),
        operands_(operands),
        weights_(weights_of_run(program, operands)),
        b_layout_(program.b_layout(operands.n)),
        c_layout_(program.c_layout(operands.n)),
        width_(program.panel_width()),
        tail_columns_(operands.n % width_) {
    if (tail_columns_ != 0) tail_masks_.emplace(program, tail_columns_);
    if (program.stream_c) full_masks_.emplace(program, width_);
  }

  void pack(PanelRange panels, float* to) const {
    if (operands_.has_tokens) {
      for (const RowRange& rows : program_.rows_of_b.ranges()) {
        pack_tokens(panels, rows, to + rows.begin * width_, b_layout_.stride());
      }
      return;
    }
    pack_panels(b_layout_, panels, operands_.rows_of_b(), program_.rows_of_b.ranges(), to);
  }

  /// Row group > panel group > k block > tile > panel.
  void work(const Share& share) const {
    const std::int64_t group = row_group_tiles(program_);
    for (std::int64_t tile = share.tile_begin; tile < share.tile_end; tile += group) {
      const std::int64_t tile_end = std::min(tile + group, share.tile_end);
      panels(share, tile, tile_end);
    }
    if (program_.stream_c) fence_streams();
  }

  void zero_empty_rows() const {
    for (const RowRange& rows : program_.empty_rows.ranges()) {
      if (is_row_major()) {
        write_empty_rows(rows, {operands_.c, operands_.ldc}, operands_.n);
        continue;
      }
      for (std::int64_t panel = 0; panel < c_layout_.panels(); ++panel) {
        write_empty_rows(rows, {operands_.c + panel * c_layout_.stride(), width_}, width_);
      }
    }
  }

 private:
  /// C, or a panel of it.
  struct RowsOfC {
    float* c;
    std::int64_t ld;  ///< floats between rows
  };

  /// The one place that writes empty rows of C, those without gaps at once. What an epilogue makes
  /// of zeros goes here.
  static void write_empty_rows(const RowRange& rows, const RowsOfC& to, std::int64_t columns) {
    const std::int64_t at_once = to.ld == columns ? rows.end - rows.begin : 1;
    for (std::int64_t row = rows.begin; row < rows.end; row += at_once) {
      std::fill_n(to.c + row * to.ld, at_once * columns, 0.0F);
    }
  }

  void panels(const Share& share, std::int64_t tile_begin, std::int64_t tile_end) const {
    const std::int64_t group = panel_group_size(program_, operands_.n);
    const bool pack_now = share.packing == Packing::panels && tile_begin == share.tile_begin;
    for (std::int64_t panel = share.panel_begin; panel < share.panel_end; panel += group) {
      Share part = share;
      part.panel_begin = panel;
      part.panel_end = std::min(panel + group, share.panel_end);
      part.tile_begin = tile_begin;
      part.tile_end = tile_end;
      if (pack_now) pack({panel, part.panel_end}, packed_panel(share, panel));
      blocks(part);
    }
  }

  /// One block of rows of the share's panels, from the beginning of each packed panel on.
  void pack_block(const Share& share, std::int64_t block) const {
    const std::int64_t first = block * program_.k_block;
    const RowRange rows{first, std::min(first + program_.k_block, program_.cols)};
    const DenseSource source = operands_.rows_of_b().from(first, 0);
    program_.rows_of_b.for_each_within(rows, [&](const RowRange& read) {
      if (operands_.has_tokens) {
        pack_tokens({share.panel_begin, share.panel_end}, read,
                    packed_panel(share, share.panel_begin) + (read.begin - first) * width_,
                    share.packed_layout.stride());
        return;
      }
      const RowRange some{read.begin - first, read.end - first};
      pack_panels(share.packed_layout, {share.panel_begin, share.panel_end}, source, {&some, 1},
                  packed_panel(share, share.panel_begin));
    });
  }

  /// Some rows of B of the tokens of some panels, to where the first of them has its first row.
  void pack_tokens(const PanelRange& panels, const RowRange& rows, float* to,
                   std::int64_t stride) const {
    const std::int64_t first = panels.begin * width_;
    transpose(IntoPanels{.from = {operands_.b + first * operands_.ldb + rows.begin, operands_.ldb},
                         .rows = std::min(panels.end * width_, operands_.n) - first,
                         .columns = rows.end - rows.begin,
                         .to = {to, width_, width_, stride}},
              program_.isa);
  }

  static float* packed_panel(const Share& share, std::int64_t panel) {
    const std::int64_t place = (panel - share.packed_panel) % share.packed_panels;
    return share.packed + place * share.packed_layout.stride();
  }

  const float* b_of(const Share& share, std::int64_t panel) const {
    if (!is_row_major()) return operands_.b + panel * b_layout_.stride();
    if (!packs_b(program_)) return operands_.b + panel_column(panel);
    return packed_panel(share, panel);
  }

  /// In place there is no padding: the last panel reaches back over columns done before, and
  /// writes the same bits again.
  std::int64_t panel_column(std::int64_t panel) const {
    const std::int64_t first = panel * width_;
    return packs_b(program_) ? first : std::min(first, operands_.n - width_);
  }

  float* c_of(std::int64_t panel) const {
    return is_row_major() ? operands_.c + panel_column(panel)
                          : operands_.c + panel * c_layout_.stride();
  }

  const void* masks_of(std::int64_t panel) const {
    const bool masked = tail_columns_ != 0 && is_row_major() && packs_b(program_) &&
                        panel + 1 == b_layout_.panels();
    if (masked) return tail_masks_->data();
    return program_.stream_c && !c_aligned(panel) ? full_masks_->data() : nullptr;
  }

  bool c_aligned(std::int64_t panel) const {
    const auto lanes = static_cast<std::uintptr_t>(program_.lanes);
    const auto ldc = static_cast<std::uintptr_t>(is_row_major() ? operands_.ldc : width_);
    return reinterpret_cast<std::uintptr_t>(c_of(panel)) % (lanes * sizeof(float)) == 0 &&
           ldc % lanes == 0;
  }

  /// Part `part` of `parts` of the code of a segment, if there is such a segment, comes near.
  void fetch_code(std::size_t segment, std::int64_t part, std::int64_t parts) const {
    if (segment >= program_.segments.size()) return;
    constexpr std::int64_t k_line_bytes = 64;
    const auto* code = reinterpret_cast<const char*>(program_.segments[segment]);
    const std::int64_t bytes = program_.segment_bytes[segment];
    const std::int64_t share = ceil_div(bytes, parts);
    const std::int64_t end = std::min((part + 1) * share, bytes);
    for (std::int64_t at = part * share; at < end; at += k_line_bytes) {
      if (program_.code == CodeFetch::read) {
        read_line(code + at);
      } else {
        prefetch_to_l2(code + at);
      }
    }
  }

  void blocks(const Share& share) const {
    PanelCalls calls;
    const std::int64_t kept = std::min(share.panel_end - share.panel_begin, k_kept_calls);
    for (std::int64_t panel = 0; panel < kept; ++panel) {
      calls[to_size(panel)] = call_of(share, share.panel_begin + panel);
    }
    if (program_.code == CodeFetch::read) {
      fetch_code(to_size(share.tile_begin * program_.k_blocks), 0, 1);
    }
    for (std::int64_t block = 0; block < program_.k_blocks; ++block) {
      if (share.packing == Packing::by_block) pack_block(share, block);
      for (std::int64_t tile = share.tile_begin; tile < share.tile_end; ++tile) {
        visit(share, calls, {tile, block});
      }
    }
  }

  PanelCall call_of(const Share& share, std::int64_t panel) const {
    const std::int64_t ldc = is_row_major() ? operands_.ldc : width_;
    return {b_of(share, panel), {c_of(panel), ldc * 4, masks_of(panel)}};
  }

  /// A tile's code for a block of columns.
  struct Place {
    std::int64_t tile;
    std::int64_t block;
  };

  /// The one that this share goes to next; none past its last.
  [[nodiscard]] std::size_t next_segment(const Share& share, const Place& at) const {
    const bool stays = at.tile + 1 < share.tile_end;
    const std::int64_t tile = stays ? at.tile + 1 : share.tile_begin;
    const std::int64_t block = stays ? at.block : at.block + 1;
    if (block == program_.k_blocks) return program_.segments.size();
    return to_size(tile * program_.k_blocks + block);
  }

  /// All panels of the group through one tile's code for one block.
  void visit(const Share& share, const PanelCalls& calls, const Place& at) const {
    const std::int64_t b_row = packs_b(program_) || !is_row_major() ? width_ : operands_.ldb;
    const bool has_one_block = share.packing == Packing::by_block;
    const std::int64_t b_offset = has_one_block ? 0 : at.block * program_.k_block * b_row;
    const std::int64_t panels = share.panel_end - share.panel_begin;
    const auto segment = static_cast<std::size_t>(at.tile * program_.k_blocks + at.block);
    // Without k blocks there are no partial sums, nor a place for them.
    const std::int64_t partial_step = program_.k_blocks > 1 ? partial_tile_floats(program_) : 0;
    const float* const weights = weights_ + program_.weight_offsets[segment];
    float* partial = share.partial + (at.tile - share.tile_begin) * panels * partial_step;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      if (program_.code != CodeFetch::none) fetch_code(next_segment(share, at), panel, panels);
      const auto run = [&](const PanelCall& call) {
        program_.segments[segment](call.b + b_offset, weights, partial, &call.arguments);
      };
      if (panel < k_kept_calls) {
        run(calls[to_size(panel)]);
      } else {
        run(call_of(share, share.panel_begin + panel));
      }
      partial += partial_step;
    }
  }

  const HostProgram& program_;
  [[nodiscard]] bool is_row_major() const noexcept { return operands_.layout == Layout::row_major; }

  const Product& operands_;
  const float* weights_;
  PanelLayout b_layout_;
  PanelLayout c_layout_;
  std::int64_t width_;
  std::int64_t tail_columns_;
  std::optional<LaneMasks> tail_masks_;
  std::optional<LaneMasks> full_masks_;  // for streaming kernels whose C is not aligned
};

}  // namespace

void execute(const HostProgram& program, const HostSplit& split, const Product& operands,
             float* workspace, ThreadPool* pool) {
  const ProgramRun run(program, operands);
  run.zero_empty_rows();
  const bool packs = packs_b(program) && operands.layout == Layout::row_major;
  const auto for_each_part = [&](auto task) {
    if (split.threads > 1 && pool != nullptr) {
      pool->run(static_cast<int>(split.threads), [&](int part, int) { task(part); });
    } else {
      for (std::int64_t part = 0; part < split.threads; ++part) task(part);
    }
  };
  if (packs && !split.by_panels) {
    const std::int64_t panels = program.b_layout(split.n).panels();
    for_each_part([&](std::int64_t part) {
      const PanelRange range{panels * part / split.threads, panels * (part + 1) / split.threads};
      run.pack(range, workspace + range.begin * program.b_layout(split.n).stride());
    });
  }
  for_each_part([&](std::int64_t part) {
    Share share = share_of(program, split, part, workspace);
    if (!packs) share.packing = Packing::none;
    run.work(share);
  });
}

}  // namespace spjit
