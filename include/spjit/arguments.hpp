#pragma once

/// @file
/// What a run of a kernel is given.

#include <cstdint>
#include <limits>
#include <optional>

#include "spjit/layout.hpp"

namespace spjit {

/// The operands of a Problem, borrowed. C must overlap none of the others, but that the residual
/// may be C itself.
struct Arguments {
  static constexpr std::int64_t k_as_compiled = std::numeric_limits<std::int64_t>::min();

  const float* b = nullptr;
  /// Floats between rows of B (tokens-major: between tokens, which may overlap); 0: those it was
  /// compiled for, or where n or the layout is another, as many as one has.
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;            ///< the same of C; rows and tokens of C must not overlap
  std::int64_t n = k_as_compiled;  ///< columns of B and C; 0: nothing is computed
  /// Of B and of C; default: as compiled. Host kernels take any, maybe slower.
  std::optional<Layout> b_layout = {};
  std::optional<Layout> c_layout = {};

  const float* scale = nullptr;     ///< [m], where the epilogue has it; so the next two
  const float* bias = nullptr;      ///< [m]
  const float* residual = nullptr;  ///< as C
  std::int64_t ldr = 0;             ///< of the residual as ldc; 0: ldc

  /// How many products are computed, all with the same A: B and C of one follow those of another at
  /// these distances in floats.
  std::int64_t batch = 1;
  std::int64_t b_distance = 0;
  std::int64_t c_distance = 0;
  std::int64_t residual_distance = 0;

  void* stream = nullptr;  ///< of a launch on a GPU; null: the default stream
};

}  // namespace spjit
