#pragma once

/// @file
/// Unrolled kernels of a run-time A: in the place of each weight, which value of A it is.
///
/// Such a kernel is emitted from A with positions for values: entry i of the CSR has the float of
/// bits k_first_position + i. It is a normal float of at least 1, so that candidates of a search
/// run as fast as with weights of a network, and no emitter looks at it.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "spjit/problem.hpp"

namespace spjit {

inline constexpr std::uint32_t k_first_position = 0x3F800000;  // 1.0F
/// Most entries of A; the next one would be infinity.
inline constexpr std::int64_t k_most_positions = 0x7F800000 - k_first_position;

/// The problem with positions as A's values. Throws what `cancel` throws soon after it is reached.
/// Precondition: A has at most k_most_positions entries.
[[nodiscard]] Problem with_positions(const Problem& problem, const Cancellation& cancel = {});

/// Whether the weights are positions of `nnz` values. Throws what `cancel` throws.
[[nodiscard]] bool are_positions(std::span<const std::byte> weights, std::int64_t nnz,
                                 const Cancellation& cancel = {});

/// Weights with the values that stand at their positions. Precondition: are_positions(), of as many
/// values.
[[nodiscard]] FloatBuffer values_at(std::span<const std::byte> positions,
                                    std::span<const float> values);

}  // namespace spjit
