#pragma once

/// @file
/// A kernel of the family `packed` loaded into a GPU, with A.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/packed/packed_code.hpp"
#include "kernels/cuda/packed/packed_rows.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

class PackedExecutable final : public CudaExecutable {
 public:
  /// Loads code and A into device `ordinal`. Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const PackedExecutable> load(
      const PackedProgram& program, std::span<const std::byte> image, int ordinal,
      const CsrMatrix& matrix, const Cancellation& cancel);

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  PackedExecutable(const PackedProgram& program, const CudaContext& context,
                   std::span<const std::byte> image, PackedRows rows,
                   std::span<const float> values);
  void launch_items(const Arguments& first, unsigned items) const override;
  [[nodiscard]] const CudaFunction& function_for(const Arguments& arguments) const;

  PackedProgram program_;
  PackedRows rows_;                      ///< without arrays, unless a run brings the values
  std::vector<CudaFunction> functions_;  ///< of packed_widths()
  DeviceBuffer bitmaps_;
  DeviceBuffer starts_;
  DeviceBuffer values_;
};

}  // namespace spjit
