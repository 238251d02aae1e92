#pragma once

/// @file
/// A's values in an image, in their own type: as many 32-bit words as they fill, the last one
/// padded with zeros.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// Bytes of so many values, in whole words. Precondition: at most 2^48.
[[nodiscard]] std::int64_t stored_bytes(DataType type, std::int64_t values) noexcept;

/// Appends values that the type has. Throws what `cancel` throws soon after it is reached.
void append_values(std::vector<std::uint32_t>& words, DataType type, std::span<const float> values,
                   const Cancellation& cancel = {});

/// The first `count` values of `stored`. Throws what `cancel` throws. Precondition: it has
/// stored_bytes() of so many, and the type is not f32.
[[nodiscard]] std::vector<float> read_values(DataType type, std::span<const std::byte> stored,
                                             std::int64_t count, const Cancellation& cancel = {});

}  // namespace spjit
