#pragma once

/// @file
/// Which rank model a compilation uses. Those that come with the library were measured on the
/// machines that their provenance names, and are inside it, so that ranking needs no file.

#include <memory>
#include <string_view>

#include "rankmodel/rank_model.hpp"
#include "spjit/options.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The model for kernels of an instruction set; null where none has been measured (`generic`): the
/// prior ranks then. Read at the first call; thread-safe.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> shipped_host_model(HostIsa isa);

/// Reads a model from text, as `spjit train` writes it. Throws Error if it is malformed or not for
/// this version of the host's features.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> parse_host_model(std::string_view text);

/// The one that `options.policy.rank_model` names: empty, the one that is shipped for the target;
/// "prior", none; else a file. Null: the prior ranks. Throws IoError for a file that cannot be
/// read, Error for one that is no model for this version.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options);

}  // namespace spjit
