#include "kernels/unrolled_host/host_executor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/arithmetic.hpp"
#include "base/checked.hpp"
#include "base/prefetch.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace spjit {
namespace {

constexpr std::int64_t k_line_floats = 16;
constexpr std::int64_t k_max_nv = 16;
constexpr std::string_view k_workspace = "floats of workspace";

std::int64_t row_group_tiles(const HostProgram& program) {
  return program.row_group > 0 ? std::min(program.row_group, program.tiles) : program.tiles;
}

std::int64_t panel_group_size(const HostProgram& program) {
  return std::clamp<std::int64_t>(program.panel_group, 1,
                                  std::max<std::int64_t>(program.b_layout().panels(), 1));
}

bool packs_b(const HostProgram& program) { return program.in_place_ldb == 0; }

/// Floats between tiles of accumulators kept between k blocks.
std::int64_t partial_tile_floats(const HostProgram& program) {
  return program.m1 * program.panel_width();
}

std::int64_t partial_floats(const HostProgram& program) {
  if (program.k_blocks == 1) return 0;
  return checked_multiply(
      checked_multiply(row_group_tiles(program), panel_group_size(program), k_workspace),
      partial_tile_floats(program), k_workspace);
}

/// Panels of packed B a thread keeps at once: all its own when later row groups read them again,
/// else one group.
std::int64_t kept_panels(const HostProgram& program, const HostSplit& split) {
  const std::int64_t panels = program.b_layout().panels();
  if (!split.by_panels) return panels;
  const std::int64_t groups = ceil_div(panels, panel_group_size(program));
  const std::int64_t own_groups = ceil_div(groups, split.threads);
  const bool once = row_group_tiles(program) >= program.tiles;
  return (once ? std::min<std::int64_t>(own_groups, 1) : own_groups) * panel_group_size(program);
}

std::int64_t pack_floats(const HostProgram& program, const HostSplit& split) {
  if (!packs_b(program)) return 0;
  const std::int64_t floats =
      checked_multiply(kept_panels(program, split), program.b_layout().stride(), k_workspace);
  return round_up(floats, k_line_floats);
}

/// What one thread works on.
struct Share {
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  std::int64_t tile_begin = 0;
  std::int64_t tile_end = 0;
  float* packed = nullptr;  ///< panels of packed B, from `packed_panel` on
  std::int64_t packed_panel = 0;
  std::int64_t packed_panels = 0;  ///< how many there is room for; later ones start over
  bool pack = false;               ///< pack here, or find it done
  float* partial = nullptr;
};

/// Lane masks for one panel, in the form the segments take.
struct LaneMasks {
  alignas(64) std::array<std::uint32_t, k_max_nv * 8> words{};  // AVX2 and generic
  std::array<std::uint16_t, k_max_nv> bits{};                   // AVX-512
};

LaneMasks make_masks(std::int64_t columns) {
  LaneMasks masks;
  for (std::int64_t v = 0; v < k_max_nv; ++v) {
    const std::int64_t left = std::clamp<std::int64_t>(columns - v * 16, 0, 16);
    masks.bits[static_cast<std::size_t>(v)] = static_cast<std::uint16_t>((1U << left) - 1U);
  }
  for (std::int64_t lane = 0; lane < k_max_nv * 8; ++lane) {
    masks.words[static_cast<std::size_t>(lane)] = lane < columns ? ~0U : 0U;
  }
  return masks;
}

/// Streaming stores are ordered with nothing; this orders them before what the caller does next.
void fence_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// One run of a program: the operands and what follows from them.
class Run {
 public:
  Run(const HostProgram& program, const Arguments& operands)
      : program_(program),
        operands_(operands),
        b_layout_(program.b_layout()),
        c_layout_(program.c_layout()),
        width_(program.panel_width()),
        tail_columns_(program.n % width_) {
    if (tail_columns_ != 0) tail_masks_ = make_masks(tail_columns_);
    if (program.stream_c) full_masks_ = make_masks(width_);
  }

  void pack(PanelRange panels, float* to) const {
    pack_panels(b_layout_, panels, {operands_.b, operands_.ldb}, program_.rows_of_b.ranges(), to);
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
    for (const RowRange& rows : program_.empty_rows.ranges()) zero_rows(rows);
  }

 private:
  void zero_rows(const RowRange& rows) const {
    if (is_row_major()) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        std::fill_n(operands_.c + row * operands_.ldc, program_.n, 0.0F);
      }
      return;
    }
    const std::int64_t floats = (rows.end - rows.begin) * width_;
    for (std::int64_t panel = 0; panel < c_layout_.panels(); ++panel) {
      std::fill_n(operands_.c + panel * c_layout_.stride() + rows.begin * width_, floats, 0.0F);
    }
  }

  void panels(const Share& share, std::int64_t tile_begin, std::int64_t tile_end) const {
    const std::int64_t group = panel_group_size(program_);
    const bool pack_now = share.pack && tile_begin == share.tile_begin;
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

  float* packed_panel(const Share& share, std::int64_t panel) const {
    const std::int64_t place = (panel - share.packed_panel) % share.packed_panels;
    return share.packed + place * b_layout_.stride();
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
    return packs_b(program_) ? first : std::min(first, program_.n - width_);
  }

  float* c_of(std::int64_t panel) const {
    return is_row_major() ? operands_.c + panel_column(panel)
                             : operands_.c + panel * c_layout_.stride();
  }

  const void* masks_of(std::int64_t panel) const {
    const bool masked = tail_columns_ != 0 && is_row_major() && packs_b(program_) &&
                        panel + 1 == b_layout_.panels();
    if (masked) return data_of(tail_masks_);
    return program_.stream_c && !c_aligned(panel) ? data_of(full_masks_) : nullptr;
  }

  const void* data_of(const LaneMasks& masks) const {
    return program_.lanes == 16 ? static_cast<const void*>(masks.bits.data())
                                : static_cast<const void*>(masks.words.data());
  }

  bool c_aligned(std::int64_t panel) const {
    const auto lanes = static_cast<std::uintptr_t>(program_.lanes);
    const auto ldc = static_cast<std::uintptr_t>(is_row_major() ? operands_.ldc : width_);
    return reinterpret_cast<std::uintptr_t>(c_of(panel)) % (lanes * sizeof(float)) == 0 &&
           ldc % lanes == 0;
  }

  /// Part `part` of `parts` of the code of a segment goes to L2.
  void prefetch_code(std::size_t segment, std::int64_t part, std::int64_t parts) const {
    if (segment >= program_.segments.size()) return;
    constexpr std::int64_t k_line_bytes = 64;
    const auto* code = reinterpret_cast<const char*>(program_.segments[segment]);
    const std::int64_t bytes = program_.segment_bytes[segment];
    const std::int64_t share = ceil_div(bytes, parts);
    const std::int64_t end = std::min((part + 1) * share, bytes);
    for (std::int64_t at = part * share; at < end; at += k_line_bytes) {
      prefetch_to_l2(code + at);
    }
  }

  void blocks(const Share& share) const {
    for (std::int64_t block = 0; block < program_.k_blocks; ++block) {
      for (std::int64_t tile = share.tile_begin; tile < share.tile_end; ++tile) {
        visit(share, tile, block);
      }
    }
  }

  /// All panels of the group through one tile's code for one block.
  void visit(const Share& share, std::int64_t tile, std::int64_t block) const {
    const std::int64_t b_row = packs_b(program_) || !is_row_major() ? width_ : operands_.ldb;
    const std::int64_t b_offset = block * program_.k_block * b_row;
    const std::int64_t ldc_bytes = (is_row_major() ? operands_.ldc : width_) * 4;
    const std::int64_t panels = share.panel_end - share.panel_begin;
    const auto segment = static_cast<std::size_t>(tile * program_.k_blocks + block);
    // Without k blocks there are no partial sums, nor a place for them.
    const std::int64_t partial_step = program_.k_blocks > 1 ? partial_tile_floats(program_) : 0;
    float* partial = share.partial + (tile - share.tile_begin) * panels * partial_step;
    for (std::int64_t panel = share.panel_begin; panel < share.panel_end; ++panel) {
      if (program_.prefetch_code) {
        prefetch_code(segment + static_cast<std::size_t>(program_.k_blocks),
                      panel - share.panel_begin, panels);
      }
      program_.segments[segment](b_of(share, panel) + b_offset, c_of(panel),
                                 program_.weights[segment], ldc_bytes, partial, masks_of(panel));
      partial += partial_step;
    }
  }

  const HostProgram& program_;
  [[nodiscard]] bool is_row_major() const noexcept {
    return operands_.layout == Layout::row_major;
  }

  const Arguments& operands_;
  PanelLayout b_layout_;
  PanelLayout c_layout_;
  std::int64_t width_;
  std::int64_t tail_columns_;
  LaneMasks tail_masks_{};
  LaneMasks full_masks_{};  // for streaming kernels whose C is not aligned
};

/// Cuts [0, tiles) into parts of about equal weight; part i is [cut(i), cut(i + 1)).
std::int64_t tile_cut(const HostProgram& program, std::int64_t part, std::int64_t parts) {
  if (part == 0) return 0;
  if (part == parts) return program.tiles;
  const std::int64_t goal = program.tile_weight_ends.back() * part / parts;
  const auto& ends = program.tile_weight_ends;
  return std::upper_bound(ends.begin(), ends.end(), goal) - ends.begin();
}

std::int64_t thread_partial_floats(const HostProgram& program) {
  return round_up(partial_floats(program), k_line_floats);
}

}  // namespace

HostSplit choose_split(const HostProgram& program, std::int64_t threads) {
  HostSplit split{std::max<std::int64_t>(threads, 1), true};
  if (split.threads == 1) return split;
  const std::int64_t groups = ceil_div(program.b_layout().panels(), panel_group_size(program));
  // The busiest thread's share against the mean; the split by tiles is even but packs together.
  const double imbalance = static_cast<double>(ceil_div(groups, split.threads) * split.threads) /
                           static_cast<double>(std::max<std::int64_t>(groups, 1));
  constexpr double k_tolerated_imbalance = 1.1;
  split.by_panels = imbalance <= k_tolerated_imbalance || program.tiles < split.threads;
  return split;
}

std::int64_t workspace_floats(const HostProgram& program, const HostSplit& split) {
  const std::int64_t packs = split.by_panels ? split.threads : 1;
  return checked_add(checked_multiply(packs, pack_floats(program, split), k_workspace),
                     checked_multiply(split.threads, thread_partial_floats(program), k_workspace),
                     k_workspace);
}

std::int64_t touched_floats(const HostProgram& program, const HostSplit& split) {
  HostProgram packed_only = program;
  packed_only.cols = program.rows_of_b.count();
  return workspace_floats(packed_only, split);
}

void execute(const HostProgram& program, const HostSplit& split, const Arguments& operands,
             float* workspace, ThreadPool* pool) {
  const Run run(program, operands);
  run.zero_empty_rows();
  const std::int64_t panels = program.b_layout().panels();
  const bool pack = packs_b(program) && operands.layout == Layout::row_major;
  const std::int64_t pack_size = pack_floats(program, split);
  const std::int64_t groups = ceil_div(panels, panel_group_size(program));
  float* const partials = workspace + (split.by_panels ? split.threads : 1) * pack_size;

  const auto share_of = [&](std::int64_t part) {
    Share share;
    share.panel_end = panels;
    share.tile_end = program.tiles;
    share.packed = workspace;
    share.packed_panels = std::max<std::int64_t>(kept_panels(program, split), 1);
    share.pack = pack && split.by_panels;
    share.partial = partials + part * thread_partial_floats(program);
    if (split.by_panels) {
      share.panel_begin = groups * part / split.threads * panel_group_size(program);
      share.panel_end =
          std::min(groups * (part + 1) / split.threads * panel_group_size(program), panels);
      share.packed = workspace + part * pack_size;
      share.packed_panel = share.panel_begin;
    } else {
      share.tile_begin = tile_cut(program, part, split.threads);
      share.tile_end = tile_cut(program, part + 1, split.threads);
    }
    return share;
  };

  if (split.threads == 1 || pool == nullptr) {
    for (std::int64_t part = 0; part < split.threads; ++part) {
      Share share = share_of(part);
      share.pack = pack;
      run.work(share);
    }
    return;
  }
  if (pack && !split.by_panels) {
    pool->run(static_cast<int>(split.threads), [&](int part, int) {
      const PanelRange range{panels * part / split.threads, panels * (part + 1) / split.threads};
      run.pack(range, workspace + range.begin * program.b_layout().stride());
    });
  }
  pool->run(static_cast<int>(split.threads), [&](int part, int) { run.work(share_of(part)); });
}

}  // namespace spjit
