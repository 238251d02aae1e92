#pragma once

/// @file
/// C of a layer that was computed, compared with float64.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "base/cancel.hpp"
#include "kernels/host/operands/placement.hpp"
#include "plan/group_scales.hpp"
#include "plan/quantization.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/matrix.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

/// Multiply-adds the reference makes at most in mode `sampled`, beside those of one row: some
/// 50 ms.
inline constexpr std::int64_t k_most_reference_products = std::int64_t{1} << 25;

struct CheckOptions {
  /// Multiply-adds of the reference; without it all of C is compared.
  std::optional<std::int64_t> most_products = k_most_reference_products;
  Cancellation cancel = {};
};

struct CheckResult {
  std::int64_t rows_checked = 0;
  std::int64_t columns_checked = 0;
  double max_abs_error = 0;         ///< max |C - reference| over what was compared
  double max_error_over_bound = 0;  ///< infinite for what is hopeless
  std::string problem = {};         ///< the first thing that is wrong, or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty(); }
};

/// The operands of a layer; borrowed. The vectors and the residual are there as the epilogue says.
struct LayerInputs {
  const CsrMatrix& matrix;
  Epilogue epilogue = {};
  const void* b = nullptr;  ///< of the type that the numerics say; so the residual, of C's
  PlacementOfB b_layout = {};
  const float* scale = nullptr;
  const float* bias = nullptr;
  const void* residual = nullptr;
  Placement residual_layout = {};
  Numerics numerics = {};
  /// The scale and the zero point of the tensor, where a run brings them or B is not all of it.
  std::optional<ByteScale> of_tensor = {};
  GroupScalesView groups = {};
  ByteScale of_c = {};  ///< of a C of bytes
};

/// C as a run computed it.
struct LayerOutput {
  const void* c = nullptr;  ///< of the type that the numerics of the inputs say
  Placement layout = {};
  std::string run = {};  ///< how the problem's text names the run
};

/// Compares every C that was computed of the inputs at a sample of elements, and where there is an
/// epilogue in further rows without entries, in all of them if they are few. Of a product these are
/// not looked at. Throws what `cancel` throws.
[[nodiscard]] CheckResult compare_layer(const LayerInputs& inputs,
                                        std::span<const LayerOutput> outputs,
                                        const CheckOptions& options = {});

}  // namespace spjit
