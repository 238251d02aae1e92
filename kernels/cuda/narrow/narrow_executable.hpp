#pragma once

/// @file
/// A kernel of the family `narrow` loaded into a GPU, with A.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/narrow/narrow_code.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// [blocks + 1] The first row of each block: as many consecutive rows as have `most_entries`
/// together, but one at least and `most_rows` at most.
[[nodiscard]] std::vector<std::uint32_t> divide_rows(const CsrMatrix& matrix,
                                                     std::int64_t most_entries,
                                                     std::int64_t most_rows);

class NarrowExecutable final : public CudaExecutable {
 public:
  /// Loads code and A into device `ordinal`. Throws as Kernel::load().
  [[nodiscard]] static std::shared_ptr<const NarrowExecutable> load(
      const NarrowProgram& program, std::span<const std::byte> image, int ordinal,
      const CsrMatrix& matrix);

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override;
  [[nodiscard]] std::int64_t active_blocks() const override;

 private:
  NarrowExecutable(const NarrowProgram& program, const CudaContext& context,
                   std::span<const std::byte> image, const CsrMatrix& matrix);
  void launch_items(const Arguments& first, unsigned items) const override;
  [[nodiscard]] const CudaFunction& function_for(const Arguments& arguments) const;

  NarrowProgram program_;
  std::vector<CudaFunction> functions_;  ///< of narrow_widths()
  std::int64_t blocks_ = 0;
  DeviceBuffer block_rows_;
  DeviceBuffer row_ptrs_;
  DeviceBuffer columns_;
  DeviceBuffer values_;
};

}  // namespace spjit
