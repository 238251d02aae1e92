#pragma once

/// @file
/// The CUDA tile space as JSON.

#include <nlohmann/json.hpp>

#include "kernels/unrolled_cuda/cuda_candidate.hpp"

namespace spjit {

[[nodiscard]] nlohmann::json to_json(const CudaTile& tile);
/// `dropped` is there only where a rule dropped the candidate, `score` only where none did.
[[nodiscard]] nlohmann::json to_json(const CudaCandidate& candidate);
[[nodiscard]] nlohmann::json to_json(const CudaTileSpace& space);

}  // namespace spjit
