#pragma once

/// @file
/// The record of a CUDA kernel: what the family `cuda` writes into it and reads of it.

#include <nlohmann/json_fwd.hpp>

#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/kernel_family.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

[[nodiscard]] nlohmann::json to_json(const CudaTile& tile);
/// Candidates have `score` only where no rule dropped them.
[[nodiscard]] nlohmann::json to_json(const CudaTileSpace& space);

[[nodiscard]] nlohmann::json to_json(const RegisterPrediction& predicted);

/// The members of cuda_record() that are known before anything is compiled.
[[nodiscard]] nlohmann::json cuda_choice_record(const CudaChoice& choice,
                                                const FamilyRequest& what);

/// The family's members of a record (docs/design/cache-format.md), for a request on a GPU.
[[nodiscard]] nlohmann::json cuda_record(const CompiledCuda& compiled, const FamilyRequest& what);

}  // namespace spjit
