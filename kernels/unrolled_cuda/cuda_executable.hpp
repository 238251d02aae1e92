#pragma once

/// @file
/// A CUDA kernel loaded into a GPU.

#include <memory>

#include "kernels/executable.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// What went wrong in a launch or before its end, not in a copy: the kernel's fault, or that of
/// somebody who uses the context at the same time.
class LaunchError : public DeviceError {
 public:
  explicit LaunchError(const DeviceError& error) : DeviceError(error) {}
};

/// Whether it begins as a cubin; anything else is PTX to the driver.
[[nodiscard]] bool is_cubin(std::span<const std::byte> image);

/// Throws Error unless image and program belong together: the image is PTX, or a cubin with the
/// kernel in it, for that architecture, with those threads a block.
void check_image(std::span<const std::byte> image, const CudaProgram& program);

class CudaExecutable final : public Executable {
 public:
  /// Loads everything into device `ordinal`; `positions`: of values at run time
  /// (value_stream.hpp). Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const CudaExecutable> load(
      const CudaProgram& program, std::span<const std::byte> image, int ordinal,
      std::vector<std::uint32_t> positions = {});

  /// Host memory to host memory. What the device says between the copies is a LaunchError.
  void run(const Arguments& host) const override;
  void launch(const Arguments& arguments) const override;

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;

  [[nodiscard]] int device() const noexcept override { return context_.device().ordinal; }
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  CudaExecutable(const CudaProgram& program, const CudaContext& context,
                 std::span<const std::byte> image, std::vector<std::uint32_t> positions);
  void check(const Arguments& arguments) const;

  CudaProgram program_;
  CudaContext context_;
  CudaFunction function_;  // keeps its module loaded
  std::vector<std::uint32_t> positions_;
};

}  // namespace spjit
