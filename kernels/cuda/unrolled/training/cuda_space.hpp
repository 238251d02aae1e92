#pragma once

/// @file
/// The candidates of a problem on a GPU with all that they refer to, for benchmarks of the search.

#include <memory>

#include "kernels/tuning/training/tuned_family.hpp"

namespace spjit {

/// TunedFamily::space() of GPUs.
[[nodiscard]] std::shared_ptr<TunableSpace> make_cuda_space(const FamilyRequest& request,
                                                            const SpaceOptions& options);

}  // namespace spjit
