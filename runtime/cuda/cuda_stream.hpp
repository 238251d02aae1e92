#pragma once

/// @file
/// Streams and events: the order of work on a CUDA device, and when it happened.

#include <memory>

#include "runtime/cuda/cuda_context.hpp"

namespace spjit {

/// A point in the work of a stream. Move-only; may be used from any thread.
class CudaEvent {
 public:
  explicit CudaEvent(CudaContext context);

  [[nodiscard]] CudaEventHandle handle() const noexcept { return handle_.get(); }

  /// Marks the end of what `stream` (null: the default one) has been given so far; an earlier mark
  /// is forgotten. Throws DeviceError.
  void record(void* stream);
  /// Waits until the device has come to the mark. Throws DeviceError.
  void synchronize() const;
  /// Milliseconds on the device from `earlier` to this one, with a resolution of about 0.5 us.
  /// Throws DeviceError if one of them was not recorded or has not been reached.
  [[nodiscard]] double ms_since(const CudaEvent& earlier) const;

 private:
  struct Destroy {
    CudaContext context;

    void operator()(CudaEventHandle event) const noexcept;
  };

  [[nodiscard]] const CudaContext& context() const noexcept {
    return handle_.get_deleter().context;
  }

  std::unique_ptr<CudaEventObject, Destroy> handle_;
};

/// A queue of work on one device. Move-only; may be used from any thread.
class CudaStream {
 public:
  /// A new stream, which does not wait for the default one.
  explicit CudaStream(CudaContext context);

  [[nodiscard]] void* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] const CudaContext& context() const noexcept {
    return handle_.get_deleter().context;
  }

  /// Waits for all of its work. Throws DeviceError, also for what went wrong in a launch before.
  void synchronize() const;

 private:
  struct Destroy {
    CudaContext context;

    void operator()(void* stream) const noexcept;
  };

  std::unique_ptr<void, Destroy> handle_;
};

/// Makes what the stream `later` is given from now on wait for all that `earlier` was given,
/// without waiting itself. Both are of the context's device; null: the default one. Throws
/// DeviceError.
void order_streams(const CudaContext& context, void* earlier, void* later);

}  // namespace spjit
