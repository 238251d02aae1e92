#pragma once

/// @file
/// Sums of a layer on their way to C: the epilogue, and the transposition to tokens.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Some rows of C for some tokens. `to` may be where `from` is, unless it has tokens; the residual
/// may be where `to` is.
struct Finish {
  const Epilogue* epilogue = nullptr;
  DenseSource from = {};  ///< sums `[rows x columns]`
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DenseTarget to = {};  ///< `[rows x columns]`, or with tokens `[columns x rows]`
  bool has_tokens = false;
  /// Operands of the epilogue, where it has them: [rows], [rows], and as `to`.
  const float* scale = nullptr;
  const float* bias = nullptr;
  DenseSource residual = {};
};

/// Computes C as Epilogue states it. Precondition: this CPU has `isa`.
void finish(const Finish& task, HostIsa isa);

}  // namespace spjit
