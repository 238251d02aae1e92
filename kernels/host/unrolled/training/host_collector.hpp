#pragma once

/// @file
/// Times every tile of a matrix, for training.

#include <memory>

#include "base/thread_pool.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "kernels/tuning/training/tuned_family.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Times every tile by exhaustive searches. A tile has the time of the search that confirmed it or
/// took more samples, else the lesser one: with two searches, what a neighbour on the machine
/// spoilt once is not taken for slow. The problem is checked. Throws as compiling does, Error if
/// nothing could be timed.
[[nodiscard]] HostSampleGroup collect_samples(const Problem& problem, const CollectOptions& options,
                                              const std::shared_ptr<ThreadPool>& pool,
                                              const TimeTiles& time_tiles);

}  // namespace spjit
