#pragma once

/// @file
/// Times compiled artifacts on this machine.

#include <memory>
#include <vector>

#include "compiler/pipeline.hpp"
#include "runtime/thread_pool.hpp"

namespace spjit {

/// Loads every artifact and runs all of them interleaved on the same seeded B and C, warm. An
/// artifact that cannot be loaded is a result with its failure.
[[nodiscard]] std::vector<TimedCandidate> time_artifacts(const std::vector<HostArtifact>& artifacts,
                                                         const std::shared_ptr<ThreadPool>& pool);

}  // namespace spjit
