#pragma once

/// @file
/// Runs a host kernel: packs B, runs the loop nest, calls the compiled segments.

#include <cstdint>
#include <vector>

#include "base/float_buffer.hpp"
#include "base/row_ranges.hpp"
#include "base/thread_pool.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/unrolled/segment_arguments.hpp"
#include "spjit/arguments.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Treatment of the next tile's code while panels run through this one.
enum class CodeFetch : std::uint8_t {
  none,      ///< nothing: it is near
  prefetch,  ///< it is asked for: pays when code comes from L3
  read,      ///< it is read as data: pays when code comes from memory
};

/// A kernel as the executor sees it: a grid of tiles x k blocks of compiled functions, and
/// their loop order.
struct HostProgram {
  std::int64_t rows = 0;  ///< m: rows of C
  std::int64_t cols = 0;  ///< k: rows of B
  HostIsa isa = HostIsa::avx512;
  std::int64_t lanes = 16;  ///< floats a vector
  std::int64_t nv = 1;      ///< vectors a panel row
  std::int64_t m1 = 1;      ///< rows a tile at most
  std::int64_t tiles = 0;   ///< row tiles, joined ones as one
  std::int64_t k_block = 1;
  std::int64_t k_blocks = 1;
  std::int64_t panel_group = 1;              ///< panels that share one visit to a tile
  std::int64_t row_group = 0;                ///< tiles a group; 0: all
  std::int64_t in_place_ldb = 0;             ///< > 0: B is read in place and must have this ld
  std::vector<HostSegment> segments;         ///< [tiles * k_blocks], by tile, then block
  const float* weights = nullptr;            ///< of all segments
  std::vector<std::int64_t> weight_offsets;  ///< [tiles * k_blocks] floats to each segment's
  std::vector<std::int64_t> segment_bytes;   ///< [tiles * k_blocks] machine code of each
  CodeFetch code = CodeFetch::none;
  /// Segments store to C past the caches and want it aligned to vectors, unless they get masks.
  bool stream_c = false;
  std::vector<std::int64_t> tile_weight_ends;  ///< [tiles] running nnz, to cut tiles evenly
  RowRanges empty_rows;                        ///< rows of C that are zeroed
  RowRanges rows_of_b;                         ///< those that segments read: no others are packed

  [[nodiscard]] std::int64_t panel_width() const noexcept { return nv * lanes; }
  [[nodiscard]] PanelLayout b_layout(std::int64_t n) const noexcept {
    return {cols, n, panel_width()};
  }
  [[nodiscard]] PanelLayout c_layout(std::int64_t n) const noexcept {
    return {rows, n, panel_width()};
  }
};

/// A's values of a run as an unrolled kernel reads them.
struct UnrolledValues final : PreparedValues::Stream {
  using Stream::Stream;
  FloatBuffer weights;     ///< where HostProgram has its own
  PreparedValues of_loop;  ///< of the loop for few columns, where the kernel has one
};

/// How the work of a run is cut between threads.
struct HostSplit {
  std::int64_t n = 0;  ///< columns of B and C
  std::int64_t threads = 1;
  bool by_panels = true;  ///< each thread its own panels; else its own tiles, B packed together
};

/// Chooses the split that leaves the least imbalance; panels win ties (nothing is shared).
[[nodiscard]] HostSplit choose_split(const HostProgram& program, std::int64_t n,
                                     std::int64_t threads);

/// Floats of 64-byte-aligned workspace one run needs.
[[nodiscard]] std::int64_t workspace_floats(const HostProgram& program, const HostSplit& split);
/// How many of them a run touches at most: fewer where segments read few of B's rows.
[[nodiscard]] std::int64_t touched_floats(const HostProgram& program, const HostSplit& split);

/// C = A * B, of split.n columns; panel-major B and C are in the program's own layouts. Values of
/// the run, if it brings any, are UnrolledValues.
/// `workspace` has workspace_floats() and is used by this run alone. `pool` may be null for one
/// thread.
void execute(const HostProgram& program, const HostSplit& split, const Product& operands,
             float* workspace, ThreadPool* pool);

}  // namespace spjit
