#pragma once

/// @file
/// A sequence of launches that the CUDA driver repeats at the cost of about one.

#include "base/function_ref.hpp"
#include "runtime/cuda/cuda_stream.hpp"

namespace spjit {

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

}  // namespace spjit
