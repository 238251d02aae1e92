#pragma once

/// @file
/// Times every tile of a matrix, for training.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "rankmodel/host_samples.hpp"
#include "runtime/thread_pool.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit::cli {

/// Searches exhaustively, twice, as `options` say (n, target, threads, budget of each; their mode
/// is not looked at), and keeps every tile's time: of the search that took more samples, else the
/// lesser one. What a neighbour on the machine spoilt once is not taken for slow. Throws as
/// compiling does, Error if nothing could be timed.
[[nodiscard]] HostSampleGroup collect_samples(const CsrMatrix& matrix,
                                              const CompileOptions& options,
                                              const std::shared_ptr<ThreadPool>& pool);

}  // namespace spjit::cli
