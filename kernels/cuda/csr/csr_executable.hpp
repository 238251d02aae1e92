#pragma once

/// @file
/// A kernel of the family `csr` loaded into a GPU, with A.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/csr/csr_code.hpp"
#include "kernels/cuda/csr/csr_rows.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"

namespace spjit {

class CsrCudaExecutable final : public CudaExecutable {
 public:
  /// Loads code and A into device `ordinal`. Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const CsrCudaExecutable> load(
      const CsrCudaProgram& program, std::span<const std::byte> image, int ordinal,
      const CsrMatrix& matrix);

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  CsrCudaExecutable(const CsrCudaProgram& program, const CudaContext& context,
                    std::span<const std::byte> image, const CsrMatrix& matrix);
  void launch_items(const Arguments& first, unsigned items) const override;
  [[nodiscard]] const CudaFunction& function_for(const Arguments& arguments) const;
  /// Values of the csr_parameters() that are not common, in their order.
  using Added = std::array<std::uint64_t, 15>;
  [[nodiscard]] Added added_parameters(const Arguments& arguments, std::int64_t first_tile) const;

  CsrCudaProgram program_;
  CsrRows rows_;
  std::vector<CudaFunction> functions_;  ///< of csr_widths()
  DeviceBuffer order_;
  DeviceBuffer begins_;
  DeviceBuffer lengths_;
  DeviceBuffer columns_;
  DeviceBuffer down_;
  DeviceBuffer right_;
  DeviceBuffer values_;
};

}  // namespace spjit
