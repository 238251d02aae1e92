#pragma once

/// @file
/// The rank models that come with the library: measured on the machines that their provenance
/// names, and inside the library itself, so that ranking needs no file.

#include <memory>
#include <string>
#include <vector>

#include "rankmodel/rank_model.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The model for kernels of an instruction set; null where none has been measured (`generic`): the
/// prior ranks then. Read at the first call; thread-safe.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> shipped_host_model(HostIsa isa);

/// Reads a model from text, as `spjit train` writes it. Throws Error if it is malformed or not for
/// this version of the host's features.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> parse_host_model(std::string_view text);

/// Names of all models that are shipped.
[[nodiscard]] std::vector<std::string> shipped_model_names();

}  // namespace spjit
