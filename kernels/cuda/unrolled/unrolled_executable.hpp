#pragma once

/// @file
/// An unrolled CUDA kernel loaded into a GPU.

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "runtime/cuda/cuda_module.hpp"

namespace spjit {

class UnrolledCudaExecutable final : public CudaExecutable {
 public:
  /// Loads everything into device `ordinal`; `positions`: of values at run time
  /// (value_stream.hpp). Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const UnrolledCudaExecutable> load(
      const UnrolledProgram& program, std::span<const std::byte> image, int ordinal,
      std::vector<std::uint32_t> positions = {});

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  UnrolledCudaExecutable(const UnrolledProgram& program, const CudaContext& context,
                         std::span<const std::byte> image, std::vector<std::uint32_t> positions);
  void launch_items(const Arguments& first, unsigned items) const override;

  UnrolledProgram program_;
  CudaFunction function_;  // keeps its module loaded
  std::vector<std::uint32_t> positions_;
};

}  // namespace spjit
