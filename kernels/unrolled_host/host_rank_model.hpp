#pragma once

/// @file
/// Which rank model a compilation uses.

#include <memory>

#include "kernels/unrolled_host/shipped_models.hpp"
#include "spjit/options.hpp"

namespace spjit {

/// The one that `options.policy.rank_model` names: empty, the one that is shipped for the target;
/// "prior", none; else a file. Null: the prior ranks. Throws IoError for a file that cannot be
/// read, Error for one that is no model for this version.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options);

}  // namespace spjit
