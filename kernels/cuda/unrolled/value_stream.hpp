#pragma once

/// @file
/// A's values at run time: the stream that the code of a kernel reads, and where each float of it
/// comes from.
///
/// A stream has the values of one row tile after another, of each in the order of its products. A
/// tile's begin at a multiple of k_values_a_load floats, so that a load of 16 bytes brings four;
/// floats between tiles are 0, and nothing uses them. All threads read the same addresses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/code/ptx_text.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Floats that one load brings: 16 bytes, the widest of every architecture.
inline constexpr std::int64_t k_values_a_load = 4;

/// In value_positions(): a float that no entry of A is.
inline constexpr std::uint32_t k_no_value = 0xFFFF'FFFFU;

/// [tiles + 1] Where each row tile's values begin in the stream, in floats.
[[nodiscard]] std::vector<std::int64_t> value_ptrs(const KernelPlan& plan);

/// [floats of the stream] Which entry of A's CSR with ascending columns each float is, or
/// k_no_value. Cost: linear in nnz and rows with entries. Throws NotSupported for 2^32 - 1 entries
/// and more, and what `cancel` throws.
[[nodiscard]] std::vector<std::uint32_t> value_positions(const KernelPlan& plan,
                                                         const Cancellation& cancel = {});

/// Reads positions back from an artifact. Throws Error unless they are whole loads in which each of
/// the `nnz` entries is once.
[[nodiscard]] std::vector<std::uint32_t> read_value_positions(std::span<const std::byte> bytes,
                                                              std::int64_t nnz);

/// The stream of values in CSR order, as many as there are entries.
[[nodiscard]] std::vector<float> arrange_values(std::span<const std::uint32_t> positions,
                                                std::span<const float> values);

/// Most floats that a stream of so many entries in so many rows has, whatever the tiles.
[[nodiscard]] std::int64_t most_value_floats(std::int64_t nnz, std::int64_t rows);

/// Loads of a tile of so many entries.
[[nodiscard]] std::int64_t value_loads(std::int64_t nonzeros);

/// The values of one row tile in PTX, in the order of its products: the pointer `pvalues` and the
/// registers a0 to a3.
class PtxValues {
 public:
  explicit PtxValues(std::int64_t begin) : next_(begin) {}

  /// Appends the load that brings the next value, where it is the first of one, and then `text`
  /// has that value's register for an operand: "a2".
  [[nodiscard]] std::string_view next(SourceText& text);

 private:
  MovingPointer pointer_{"pvalues"};
  std::int64_t next_;
};

/// Values in CUDA C++: read from `const float4* values`, into constants named after their load.
class CudaTextValues {
 public:
  explicit CudaTextValues(std::int64_t begin) : next_(begin) {}

  /// As PtxValues::next(): "a12.z".
  [[nodiscard]] std::string next(SourceText& text);

 private:
  std::int64_t next_;
};

}  // namespace spjit
