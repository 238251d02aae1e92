#pragma once

/// @file
/// Threads of the caller that kernels run in.

#include <functional>

namespace spjit {

/// Calls `task(context, 0)` to `task(context, tasks - 1)`, each once, in whichever threads and
/// order, and returns when all of them have returned. `tasks` is at most the number of threads that
/// the kernel was made for. Tasks throw nothing and do not wait for one another: a loop in one
/// thread is correct, too. Runs of kernels in several threads call it at the same time.
using ParallelFor =
    std::function<void(int tasks, void (*task)(void* context, int index), void* context)>;

}  // namespace spjit
