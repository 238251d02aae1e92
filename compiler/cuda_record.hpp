#pragma once

/// @file
/// The CUDA tile space as JSON, for records and `spjit explain --json`.

#include <nlohmann/json.hpp>

#include "compiler/cuda_candidate.hpp"

namespace spjit {

[[nodiscard]] nlohmann::json to_json(const CudaTile& tile);
[[nodiscard]] nlohmann::json to_json(const CudaCandidate& candidate);
[[nodiscard]] nlohmann::json to_json(const CudaTileSpace& space);

}  // namespace spjit
