#pragma once

/// @file
/// A sequence of launches that the CUDA driver repeats at the cost of about one: for benchmarks,
/// and for the test that a kernel's launch can be captured.

#include <fmt/format.h>

#include <utility>

#include "base/function_ref.hpp"
#include "runtime/cuda/cuda_stream.hpp"

namespace spjit {

// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may allocate meanwhile; this one may not.
inline constexpr int k_capture_thread_local = 1;

// The graph of a capture, until it is made executable.
class CapturedGraph {
 public:
  explicit CapturedGraph(const CudaApi& api) : api_(api) {}
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    if (handle_ != nullptr) static_cast<void>(api_.destroy_graph(handle_));
  }

  [[nodiscard]] CudaGraphHandle& handle() { return handle_; }

 private:
  const CudaApi& api_;
  CudaGraphHandle handle_ = nullptr;
};

/// Work that was given to a stream once, ready to be given again. Move-only; not to be launched by
/// two threads at a time.
class CudaGraph {
 public:
  /// Calls `launches`, which gives work to `stream` (not the default one) from the calling thread;
  /// it is recorded, not done. What is recorded has the kernels' parameters and the buffers'
  /// addresses; the buffers' contents are those at each launch. If `launches` throws, or does what
  /// cannot be recorded (allocating, loading, synchronizing: DeviceError), the recording is
  /// discarded, the stream is as before, and the exception passes on.
  [[nodiscard]] static CudaGraph capture(const CudaStream& stream, FunctionRef<void()> launches);

  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();

  /// Gives the work to `stream` (null: the default one), behind what it already has. Modules and
  /// buffers must still be there. Throws DeviceError.
  void launch(void* stream) const;

 private:
  CudaGraph(CudaContext context, CudaGraphHandle graph);

  CudaContext context_;
  CudaGraphExecHandle executable_ = nullptr;
};

inline CudaGraph CudaGraph::capture(const CudaStream& stream, FunctionRef<void()> launches) {
  const CurrentCudaContext current(stream.context());
  const CudaDriver& driver = stream.context().driver();
  const auto what = [&] {
    return fmt::format("capture launches on {}", stream.context().device().label());
  };
  driver.check(driver.api().begin_capture(stream.handle(), k_capture_thread_local), what);
  CapturedGraph graph(driver.api());
  try {
    launches();
  } catch (...) {
    static_cast<void>(driver.api().end_capture(stream.handle(), &graph.handle()));
    throw;
  }
  driver.check(driver.api().end_capture(stream.handle(), &graph.handle()), what);
  return {stream.context(), graph.handle()};
}

inline CudaGraph::CudaGraph(CudaContext context, CudaGraphHandle graph)
    : context_(std::move(context)) {
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().instantiate(&executable_, graph, 0), [&] {
    return fmt::format("make captured launches executable on {}", context_.device().label());
  });
}

inline CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : context_(std::move(other.context_)), executable_(std::exchange(other.executable_, nullptr)) {}

inline CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(executable_, other.executable_);
  return *this;
}

inline CudaGraph::~CudaGraph() {
  if (executable_ == nullptr) return;
  context_.release([&](const CudaApi& api) { return api.destroy_executable(executable_); });
}

inline void CudaGraph::launch(void* stream) const {
  context_.call(
      [&] { return fmt::format("launch captured launches on {}", context_.device().label()); },
      &CudaApi::launch_graph, executable_, stream);
}

}  // namespace spjit
