#pragma once

/// @file
/// The rank models of the host.

#include <memory>

#include "spjit/options.hpp"
#include "spjit/target.hpp"

namespace spjit {

struct LoadedRankModel;

/// The model for kernels of an instruction set; null where none has been measured (`generic`): the
/// prior ranks then. Read at the first call; thread-safe.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> shipped_host_model(HostIsa isa);

/// find_rank_model() for the target: shipped_host_model() unless the policy names another.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options);

}  // namespace spjit
