#pragma once

/// @file
/// A's values, taken from a matrix of A's pattern.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Values in the order of `Kernel::prepare_values()`, of a matrix whose rows may have columns in
/// any order; of a convolution of groups also weights with the channels of a group. Throws
/// InvalidMatrix as `CsrMatrix::validate()`; InvalidArgument for another pattern than that of the
/// kernel with this info and record, and if the record does not say which it has.
[[nodiscard]] std::vector<float> values_of_pattern(const CsrMatrix& matrix, const KernelInfo& info,
                                                   const nlohmann::json& record);

}  // namespace spjit
