#pragma once

/// @file
/// What a compiled host kernel is outside memory: code, weights and a program record, and the ELF
/// object that holds the three.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"
#include "kernels/unrolled_host/host_emitter.hpp"
#include "kernels/unrolled_host/host_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Changes whenever emitted code or the record's layout does: part of the cache key.
inline constexpr std::int64_t k_host_program_version = 6;

/// Everything about a kernel that is not code or weights.
struct HostProgramRecord {
  KernelKind kind = KernelKind::unrolled;
  HostIsa isa = HostIsa::generic;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t n = 0;
  std::int64_t nnz = 0;
  HostTile tile;
  std::int64_t tiles = 0;
  std::int64_t k_block = 1;
  std::int64_t k_blocks = 1;
  std::int64_t in_place_ldb = 0;              ///< 0: B is packed
  std::vector<std::int64_t> segment_offsets;  ///< [tiles * k_blocks], bytes into the text
  std::vector<std::int64_t> weight_offsets;   ///< [tiles * k_blocks], floats into the weights
  std::vector<std::int64_t> tile_nnz_ends;    ///< [tiles] running nnz
  RowRanges empty_rows;                       ///< of C
  RowRanges rows_of_b;                        ///< that the code reads; unrolled only
  std::vector<std::int64_t> row_ptrs;         ///< csr and sliced only: [rows + 1]

  friend bool operator==(const HostProgramRecord&, const HostProgramRecord&) = default;
};

/// The three parts. For KernelKind::csr and sliced there is no text, and the weights are nnz values
/// followed by nnz columns.
struct HostImage {
  std::span<const std::byte> text;
  std::span<const std::byte> weights;
  std::span<const std::byte> program;
};

/// Owns what a HostImage refers to.
struct HostArtifact {
  std::vector<std::uint8_t> text;
  std::vector<std::uint32_t> weights;  ///< bits of floats and, for csr and sliced, columns
  std::vector<std::int64_t> program;

  [[nodiscard]] HostImage image() const noexcept;
  /// Bytes of code and weights, what a run goes through.
  [[nodiscard]] std::size_t run_bytes() const noexcept {
    return text.size() + weights.size() * sizeof(weights[0]);
  }
};

/// What code is made for, besides plan and tile.
struct HostCodeShape {
  HostIsa isa = HostIsa::generic;
  std::int64_t n = 1;
  std::int64_t in_place_ldb = 0;  ///< floats between rows of B where it is not packed; else 0
  Cancellation cancel = {};       ///< asked while the code is made
};

/// Throws as emit_host() and emit_generic() do.
[[nodiscard]] HostArtifact make_unrolled_artifact(const KernelPlan& plan, const HostTile& tile,
                                                  const HostCodeShape& shape);
/// The matrix itself, for a kernel of `kind` csr or sliced; `shape.in_place_ldb` means nothing.
[[nodiscard]] HostArtifact make_csr_artifact(const CsrMatrix& matrix, KernelKind kind,
                                             const HostCodeShape& shape);

/// The record as 64-bit words (docs/cache-format.md) and back. Reading checks every count, offset
/// and relation against the sizes of the image; throws Error that says what is wrong. These and
/// write_object() throw what `cancel` throws soon after it is reached.
[[nodiscard]] std::vector<std::int64_t> write_program(const HostProgramRecord& record,
                                                      const Cancellation& cancel = {});
[[nodiscard]] HostProgramRecord read_program(const HostImage& image,
                                             const Cancellation& cancel = {});

/// An ELF object with `spjit_<name>_text`, `_weights` and `_program`.
[[nodiscard]] std::vector<std::byte> write_object(const HostImage& image, const std::string& name,
                                                  const Cancellation& cancel = {});
/// The parts of such an object; views into `object`. Throws Error for anything else.
[[nodiscard]] HostImage read_object(std::span<const std::byte> object, const std::string& name);

}  // namespace spjit
