#pragma once

/// @file
/// A kernel of the family `dense` loaded into a GPU, with A.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/dense/dense_code.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Bytes that A with its zeros takes in a GPU.
[[nodiscard]] double dense_bytes(std::int64_t rows, std::int64_t cols,
                                 const DenseTile& tile) noexcept;

/// A with its zeros as the kernels read it (dense_parameters()), of values in CSR order. Throws
/// InvalidArgument if they are 2^61 floats or more, std::bad_alloc.
[[nodiscard]] std::vector<float> dense_values_of(const CsrMatrix& matrix,
                                                 std::span<const float> values,
                                                 const DenseTile& tile);

class DenseCudaExecutable final : public CudaExecutable {
 public:
  /// Loads code and A into device `ordinal`. Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const DenseCudaExecutable> load(
      const DenseCudaProgram& program, std::span<const std::byte> image, int ordinal,
      CsrMatrix matrix);

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  DenseCudaExecutable(const DenseCudaProgram& program, const CudaContext& context,
                      std::span<const std::byte> image, CsrMatrix matrix);
  void launch_items(const Arguments& first, unsigned items) const override;
  [[nodiscard]] const CudaFunction& function_for(const Arguments& arguments) const;

  DenseCudaProgram program_;
  std::vector<CudaFunction> functions_;  ///< of dense_widths()
  CsrMatrix matrix_;  ///< without values; and without anything, unless a run brings those
  DeviceBuffer row_ptrs_;
  DeviceBuffer columns_;
  std::shared_ptr<const PreparedValues::Stream> own_values_;  ///< null: a run brings them
};

}  // namespace spjit
