#pragma once

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "emulated_driver/cuda_abi.hpp"

namespace spjit::emulated {

class Driver;
struct Context;

/// Work given to a stream.
using Operation = std::function<Result(Driver&)>;

/// CUstreamCaptureMode.
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

/// A stream that is being captured: what it is given is kept, not done. Once it is invalid nothing
/// but its end is accepted.
struct Capture {
  CaptureMode mode = CaptureMode::global;
  std::thread::id thread;
  bool is_invalid = false;
  std::vector<Operation> operations;
};

struct Stream {
  bool is_blocking = true;  ///< waits for the legacy default stream, and that for it
  std::optional<Capture> capture;
};

/// CUgraph and CUgraphExec: both are the captured work.
struct Graph {
  std::vector<Operation> operations;
};

/// Whether work can be given to `stream`: one of the context's, or a default one.
[[nodiscard]] bool is_stream(const Context& context, const void* stream);

/// Does `operation`, or keeps it if `stream` is being captured.
[[nodiscard]] Result submit(Driver& driver, Context& context, const void* stream,
                            Operation operation);

/// Result of waiting for `stream`, or of asking it: such a call makes a capture of it invalid.
[[nodiscard]] Result wait_for_stream(Context& context, const void* stream);

/// Result of waiting for everything: any capture forbids it.
[[nodiscard]] Result wait_for_all(Context& context);

/// Result of a call that CUDA calls potentially unsafe (allocating, loading, synchronous copies):
/// captures that are global, or of this thread and not relaxed, forbid it and become invalid.
[[nodiscard]] Result unsafe_call(Context& context);

}  // namespace spjit::emulated
