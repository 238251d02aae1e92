#pragma once

/// @file
/// What the kernels of bytes take and give.

#include <cstddef>
#include <cstdint>

#include "plan/quantization.hpp"

namespace spjit {

/// Bytes of A that are read for all tokens before what follows them.
inline constexpr std::int64_t k_near_bytes = std::int64_t{128} << 10;

/// The numbers that the bytes of B stand for.
enum class ByteKind : std::uint8_t {
  is_signed,  ///< i8, none of them -128; without vpdpbusd, not of packed slots
  is_unsigned,
};

/// Tokens that are pixels of an image, whose rows are apart.
struct ByteRows {
  const std::uint32_t* starts = nullptr;  ///< [steps] bytes from a token's first to each window
  std::int64_t first = 0;                 ///< token of the image that is the first one
  std::int64_t tokens = 0;                ///< of a row
  std::int64_t distance = 0;              ///< bytes between tokens of a row
  std::int64_t row_distance = 0;          ///< bytes between rows
};

/// How sums become bytes of C. Numbers of rows are in the order of lanes (ByteMatrix::in_lanes()).
struct ByteFinish {
  const float* summand = nullptr;  ///< before the product with the scale; null: none
  const float* scale = nullptr;
  const float* bias = nullptr;  ///< behind it; null: none
  ByteScale unit = {};          ///< of C
  QuotientBounds bounds = {};   ///< of its type

  /// From the row of a lane on.
  [[nodiscard]] ByteFinish from(std::int64_t lane) const noexcept {
    const auto behind = [lane](const float* all) { return all == nullptr ? all : all + lane; };
    return {behind(summand), behind(scale), behind(bias), unit, bounds};
  }
};

/// B, token after token, and C, borrowed. They must not overlap.
struct ByteOperands {
  const std::uint8_t* b = nullptr;  ///< ByteMatrix::token_bytes() between tokens
  const ByteRows* rows = nullptr;   ///< of an image that begins at `b`; null: it is B
  ByteKind kind = ByteKind::is_unsigned;
  std::int32_t zero_point = 0;  ///< what 0 is stored as: sums are those of B less it
  std::int64_t n = 0;
  std::byte* c = nullptr;        ///< elements of 4 bytes
  std::int64_t row_bytes = 0;    ///< between rows of C
  std::int64_t token_bytes = 0;  ///< between its columns
  bool has_floats = false;       ///< C is f32, else i32; with scales of groups f32
  /// C is bytes, those of a token together. Precondition: ByteMatrix::has_blocks().
  const ByteFinish* finish = nullptr;
};

}  // namespace spjit
