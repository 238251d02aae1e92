#pragma once

/// @file
/// What a CudaKernel and a PreparedCudaKernel hold.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/cuda_kernel.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// A compiled kernel. Immutable once made.
class CudaKernel::Impl {
 public:
  /// Checks that image and program belong together: the kernel is there, for that architecture,
  /// with those threads a block. Throws Error.
  Impl(std::vector<std::byte> image_in, const CudaProgram& program_in);

  CudaKernelInfo info;
  std::string record_json = "{}";
  std::vector<std::byte> image;  ///< a cubin or PTX
  CudaProgram program;
  std::vector<std::byte> cuda_source_gz;  ///< empty: not kept
  std::vector<std::byte> ptx_gz;
};

/// What went wrong in a launch or before its end, not in a copy: the kernel's fault, or that of
/// somebody who uses the context at the same time.
class LaunchError : public DeviceError {
 public:
  explicit LaunchError(const DeviceError& error) : DeviceError(error) {}
};

/// A kernel loaded into a device. Immutable once made.
class PreparedCudaKernel::Impl {
 public:
  /// Loads everything. Throws as CudaKernel::prepare().
  [[nodiscard]] static std::shared_ptr<const Impl> load(const CudaKernel::Impl& kernel, int device);

  void launch(const CudaOperands& operands, void* stream) const;
  /// As PreparedCudaKernel::run(), for operands in host memory. What the device says between the
  /// copies is a LaunchError.
  void run(const CudaOperands& host) const;

  [[nodiscard]] const CudaProgram& program() const noexcept { return program_; }
  [[nodiscard]] int device() const noexcept { return context_.device().ordinal; }
  [[nodiscard]] std::int64_t driver_active_blocks() const;

 private:
  Impl(const CudaProgram& program, const CudaContext& context, std::span<const std::byte> image);
  void check(const CudaOperands& operands) const;

  CudaProgram program_;
  CudaContext context_;
  CudaFunction function_;  // keeps its module loaded
};

}  // namespace spjit
