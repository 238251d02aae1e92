#pragma once

/// @file
/// Unrolled code of the host in executable memory.

#include <cstddef>
#include <memory>
#include <span>

#include "base/executable_code.hpp"
#include "kernels/host/object/host_family.hpp"
#include "kernels/host/unrolled/host_executor.hpp"
#include "kernels/host/unrolled/host_program.hpp"

namespace spjit {

class UnrolledMultiplier final : public Multiplier {
 public:
  /// Copies the text into executable pages, unless it runs where it is. `record` is the image's.
  /// Throws Error if there are no pages.
  UnrolledMultiplier(const HostObject& object, HostProgramRecord record,
                     const Cancellation& cancel = {});

  void multiply(const Product& product) const override;
  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override;
  [[nodiscard]] bool takes_tokens() const noexcept override { return program_.in_place_ldb == 0; }
  [[nodiscard]] ColumnGroups column_groups(bool in_place) const noexcept override;
  [[nodiscard]] const Executable* suited_to_few(Arguments& arguments) const override;
  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override;

  /// The n that it was compiled for; of a run-time one the typical value.
  [[nodiscard]] std::int64_t columns() const noexcept { return plan_.split.n; }
  [[nodiscard]] const HostProgram& program() const noexcept { return program_; }
  [[nodiscard]] std::int64_t code_bytes() const noexcept { return code_bytes_; }

  /// The program in the loop order of `tile` instead; it must share code with the kernel's own.
  [[nodiscard]] HostProgram in_order_of(const HostTile& tile) const;

 private:
  /// The split and the workspace of a run of so many columns.
  struct RunPlan {
    HostSplit split;
    WorkspaceSize workspace;
  };
  [[nodiscard]] RunPlan plan_for(std::int64_t n, std::int64_t threads) const;
  [[nodiscard]] RunPlan plan_of(const Product& product) const;
  [[nodiscard]] bool reads_in_place(const Product& product) const noexcept;
  [[nodiscard]] bool may_straddle_lines(const Product& product) const;
  [[nodiscard]] bool straddles_lines(const Product& product) const;
  [[nodiscard]] WorkspaceSize copy_size(const Product& product) const;
  void run_copied(const Product& product, const RunPlan& plan) const;
  void copy_rows_of_b(const Product& from, const RowRange& rows, float* to) const;

  ExecutableCode code_;
  std::int64_t code_bytes_ = 0;
  HostProgram program_;
  std::span<const std::byte> weights_;          ///< in the image
  std::shared_ptr<const HostExecutable> loop_;  ///< for few columns; or null
  std::int64_t loop_columns_ = 0;
  RunPlan plan_;  ///< of the n that it was compiled for
};

}  // namespace spjit
