#pragma once

/// @file
/// A device's primary context, the one that the CUDA runtime and other libraries use too.

#include <memory>

#include "runtime/cuda/cuda_driver.hpp"
#include "runtime/cuda/local_gpus.hpp"

namespace spjit {

/// A device with its primary context, kept alive as long as any copy. Copies are cheap and may be
/// used from any thread. Everything on a device holds one.
class CudaContext {
 public:
  /// Device `ordinal` of `driver`. Throws InvalidArgument if there is none, DeviceError if its
  /// context cannot be made.
  CudaContext(std::shared_ptr<const CudaDriver> driver, int ordinal);

  [[nodiscard]] const CudaDriver& driver() const noexcept { return *state_->driver; }
  [[nodiscard]] const LocalGpu& device() const noexcept { return state_->device; }
  [[nodiscard]] CudaContextHandle handle() const noexcept { return state_->handle; }

  /// Waits for everything that the device was given. Throws DeviceError, also for what went wrong
  /// in a launch before.
  void synchronize() const;

  /// Calls a function of the driver with the context current. Throws DeviceError unless it
  /// succeeds; `what()` is as for CudaDriver::check().
  template <typename What, typename Function, typename... Arguments>
  void call(const What& what, Function CudaApi::*function, Arguments... arguments) const;

  /// Runs `release(api)` with the context current, for destructors: what fails is ignored, since
  /// at the end of a process the driver may be gone already.
  template <typename Release>
  void release(const Release& release) const noexcept {
    const CudaApi& api = driver().api();
    CudaContextHandle previous = nullptr;
    if (api.current_context(&previous) != k_cuda_success) return;
    const bool other = previous != handle();
    if (other && api.set_current_context(handle()) != k_cuda_success) return;
    static_cast<void>(release(api));
    if (other) static_cast<void>(api.set_current_context(previous));
  }

 private:
  struct State {
    State(std::shared_ptr<const CudaDriver> driver, int ordinal);
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();

    std::shared_ptr<const CudaDriver> driver;
    LocalGpu device;
    int handle_of_device = 0;  ///< CUdevice
    CudaContextHandle handle = nullptr;
  };

  std::shared_ptr<const State> state_;
};

/// Makes a context the calling thread's until the end of the scope, when the one that was there
/// before (the caller's, or none) is again. Refers to `context`.
class CurrentCudaContext {
 public:
  /// Throws DeviceError.
  explicit CurrentCudaContext(const CudaContext& context);
  CurrentCudaContext(const CurrentCudaContext&) = delete;
  CurrentCudaContext& operator=(const CurrentCudaContext&) = delete;
  ~CurrentCudaContext();

 private:
  const CudaContext& context_;
  CudaContextHandle previous_ = nullptr;
};

template <typename What, typename Function, typename... Arguments>
void CudaContext::call(const What& what, Function CudaApi::*function,
                       Arguments... arguments) const {
  const CurrentCudaContext current(*this);
  driver().check((driver().api().*function)(arguments...), what);
}

}  // namespace spjit
