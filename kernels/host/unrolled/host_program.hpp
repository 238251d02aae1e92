#pragma once

/// @file
/// The image of an unrolled host kernel, and its program record, 64-bit words:
///
///     program  = header                 ; kernels/host/object/program_words.hpp
///                m1 nv tile_k_block panel_group row_group pack_b form memory_rows stream_c
///                read_ahead join_bytes k_block in_place_ldb
///                list(running row tiles by joined ones)
///                list(segment offsets, bytes into the text)  list(weight offsets, floats)
///                list(running nnz by joined tiles)  list(ranges of empty rows)
///                list(ranges of rows of B that are read)  loop_columns list(row offsets of A)
///     list     = count value*
///     ranges   = (first, one past the last) of each range, ascending, as few as possible
///
/// A kernel of a run-time n may have A, too: for n of up to loop_columns it is the loop of the
/// family `compact`. Then there are row offsets, and the weights end with the image of a CSR kernel
/// (kernels/host/object/csr_image.hpp).
///
/// Where A's values are those of a run, a weight says which value it is
/// (kernels/host/unrolled/weight_positions.hpp).

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/host_image.hpp"
#include "kernels/host/object/program_words.hpp"
#include "kernels/host/unrolled/host_emitter.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The family's name.
inline constexpr const char* k_unrolled_host_name = "unrolled";

/// Everything about a kernel that is not code or weights.
struct HostProgramRecord {
  HostProgramHeader header;
  HostTile tile;
  std::int64_t k_block = 1;
  std::int64_t k_blocks = 1;
  std::int64_t in_place_ldb = 0;              ///< 0: B is packed
  std::vector<std::int64_t> tile_ends;        ///< [tiles()] running row tiles
  std::vector<std::int64_t> segment_offsets;  ///< [tiles() * k_blocks], bytes into the text
  std::vector<std::int64_t> weight_offsets;   ///< [tiles() * k_blocks], floats into the weights
  std::vector<std::int64_t> tile_nnz_ends;    ///< [tiles()] running nnz
  RowRanges empty_rows;                       ///< of C
  RowRanges rows_of_b;                        ///< that the code reads
  std::int64_t loop_columns = 0;              ///< up to so many the loop over A is faster
  std::vector<std::int64_t> row_ptrs;         ///< of A; none: there is no loop

  /// Row tiles, joined ones as one.
  [[nodiscard]] std::int64_t tiles() const noexcept { return std::ssize(tile_ends); }
  /// Rows of the largest of them, at most.
  [[nodiscard]] std::int64_t rows_a_tile() const noexcept;

  friend bool operator==(const HostProgramRecord&, const HostProgramRecord&) = default;
};

/// Code for a plan of the problem, or of a part of it. B is read in place, at the problem's leading
/// dimension, unless the tile packs it. Throws as emit_host() and emit_generic() do.
[[nodiscard]] HostArtifact make_unrolled_artifact(const KernelPlan& plan, const HostTile& tile,
                                                  const Problem& problem, HostIsa isa,
                                                  const Cancellation& cancel = {});

/// Adds the problem's A to an artifact, for a loop over it up to so many columns.
void add_loop(HostArtifact& artifact, const Problem& problem, std::int64_t columns,
              const Cancellation& cancel = {});

/// The part of an image's weights that the code reads: all but A. Precondition: the record is its
/// own.
[[nodiscard]] std::span<const std::byte> weights_of(const HostProgramRecord& record,
                                                    const HostImage& image) noexcept;

/// The A that an image has. Precondition: the record is its own and has row offsets.
[[nodiscard]] CsrImage loop_of(const HostProgramRecord& record, const HostImage& image,
                               const Cancellation& cancel = {});

/// The record as 64-bit words and back. Reading checks every count, offset
/// and relation against the sizes of the image; throws Error that says what is wrong. Both throw
/// what `cancel` throws soon after it is reached.
[[nodiscard]] std::vector<std::int64_t> write_program(const HostProgramRecord& record,
                                                      const Cancellation& cancel = {});
[[nodiscard]] HostProgramRecord read_program(const HostImage& image,
                                             const Cancellation& cancel = {});

}  // namespace spjit
