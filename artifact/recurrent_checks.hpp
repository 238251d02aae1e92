#pragma once

/// @file
/// Whether kernels make a recurrent layer, and whether it can be run with what a run is given.

#include <cstdint>
#include <span>

#include "spjit/recurrent.hpp"

namespace spjit {

/// Floats of a recurrent layer's operands.
struct RecurrentSizes {
  RecurrentCell cell;
  std::int64_t directions;
  std::int64_t inputs;   ///< of a step
  std::int64_t hidden;   ///< of a gate, and of c
  std::int64_t outputs;  ///< of h
};

/// Throws InvalidArgument for kernels that do not fit the cell or one another.
[[nodiscard]] RecurrentSizes checked_kernels(RecurrentCell cell,
                                             std::span<const RecurrentKernels> kernels);

/// The arguments with strides filled in. Throws InvalidArgument for what RecurrentLayer::run()
/// says.
[[nodiscard]] RecurrentArguments checked_recurrent(const RecurrentSizes& sizes,
                                                   std::span<const RecurrentKernels> kernels,
                                                   RecurrentArguments arguments);

}  // namespace spjit
