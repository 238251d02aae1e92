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

/// Searches exhaustively, as `options` say (n, target, threads, budget; their mode is not looked
/// at), and keeps every tile's time. Throws as compiling does, Error if nothing could be timed.
[[nodiscard]] HostSampleGroup collect_samples(const CsrMatrix& matrix,
                                              const CompileOptions& options,
                                              const std::shared_ptr<ThreadPool>& pool);

}  // namespace spjit::cli
