#pragma once

/// @file
/// A CUDA kernel loaded into a GPU: what those of all families have in common.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/executable.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// A fault of a launch, or before its end, not of a copy: the kernel's fault, or that of somebody
/// who uses the context at the same time.
class LaunchError : public DeviceError {
 public:
  explicit LaunchError(const DeviceError& error) : DeviceError(error) {}
};

/// Whether it begins as a cubin; anything else is PTX to the driver.
[[nodiscard]] bool is_cubin(std::span<const std::byte> image);

/// Throws Error unless image and record belong together: the image is PTX, or a cubin for `arch`
/// with the kernel in it, which takes so many threads a block.
void check_image(std::span<const std::byte> image, std::string_view kernel, std::int64_t arch,
                 std::int64_t threads);

/// GPU `ordinal` of this machine, for code of `arch`. Throws NotSupported if it does not run that,
/// and as CudaContext.
[[nodiscard]] CudaContext context_for(std::int64_t arch, int ordinal);

class CudaExecutable : public Executable {
 public:
  /// Host memory to host memory. What the device says between the copies is a LaunchError.
  void run(const Arguments& host) const final;
  void launch(const Arguments& arguments) const final;

  [[nodiscard]] int device() const noexcept final { return context_.device().ordinal; }

 protected:
  /// Largest sizes that a launch may have.
  struct Limits {
    std::int64_t leading_dimension;
    std::int64_t columns;
  };

  CudaExecutable(const CudaProgram& program, CudaContext context, const Limits& limits)
      : program_(program), context_(std::move(context)), limits_(limits) {}

  [[nodiscard]] const CudaContext& context() const noexcept { return context_; }

  /// One launch of `items` products of `first` and those that follow it, 1 to k_cuda_max_grid_z.
  /// All sizes are what the program and the limits allow. Throws DeviceError.
  virtual void launch_items(const Arguments& first, unsigned items) const = 0;

 private:
  void check(const Arguments& arguments) const;

  CudaProgram program_;
  CudaContext context_;
  Limits limits_;
};

}  // namespace spjit
