#pragma once

/// @file
/// Compiled code on a CUDA device, and launching it.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/cuda_context.hpp"

namespace spjit {

class CudaFunction;

/// A cubin or PTX text loaded on one device, until the last copy and the last function of it are
/// gone. Copies are cheap and may be used from any thread.
class CudaModule {
 public:
  /// Loads `image`, which is not needed afterwards. Throws DeviceError; what the driver's PTX
  /// compiler printed follows the message.
  CudaModule(const CudaContext& context, std::span<const std::byte> image);

  /// The kernel `name`. Throws DeviceError if there is none.
  [[nodiscard]] CudaFunction function(const std::string& name) const;

 private:
  friend class CudaFunction;
  struct State;

  std::shared_ptr<const State> state_;
};

/// Blocks of a grid, or threads of a block.
struct CudaExtent {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// How many threads to launch.
struct CudaLaunchShape {
  CudaExtent grid = {};               ///< blocks
  CudaExtent block = {};              ///< threads
  unsigned dynamic_shared_bytes = 0;  ///< of a block
};

/// A kernel of a module, which it keeps loaded. May be used from any thread; all errors are
/// DeviceErrors that name the kernel.
class CudaFunction {
 public:
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const CudaContext& context() const noexcept;

  /// Allows launches with up to `bytes` of dynamic shared memory; at first it is 48 KiB less the
  /// static.
  void set_max_dynamic_shared(int bytes) const;
  /// Brings the code to the device now, so that the first launch does not. Does nothing with
  /// drivers before CUDA 12.4, which cannot.
  void load() const;
  /// How many blocks of `threads` threads fit on an SM at a time, says the driver.
  [[nodiscard]] int active_blocks_per_sm(int threads, std::size_t dynamic_shared_bytes) const;

  /// Gives a launch to `stream` (the caller's, or null for the default one) and returns.
  /// `parameters` points to each parameter's value, which is read before this returns. Allocates
  /// nothing. Errors while the kernel runs are thrown by later calls.
  void launch(const CudaLaunchShape& shape, void* stream, void** parameters) const;

 private:
  friend class CudaModule;
  CudaFunction(std::shared_ptr<const CudaModule::State> module, std::string name);

  [[nodiscard]] std::string label() const;
  [[nodiscard]] std::string label(const CudaLaunchShape& shape) const;

  std::shared_ptr<const CudaModule::State> module_;
  std::string name_;
  CudaFunctionHandle handle_ = nullptr;
};

}  // namespace spjit
