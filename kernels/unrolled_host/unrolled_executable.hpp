#pragma once

/// @file
/// An unrolled host kernel in executable memory.

#include "base/executable_code.hpp"
#include "kernels/host_family.hpp"
#include "kernels/unrolled_host/host_executor.hpp"
#include "kernels/unrolled_host/host_program.hpp"

namespace spjit {

class UnrolledExecutable final : public HostExecutable {
 public:
  /// Copies the text into executable pages, unless it runs where it is. `record` is the image's.
  /// Throws Error if there are no pages.
  UnrolledExecutable(HostObject object, HostProgramRecord record);

  void multiply(const Product& product) const override;

  [[nodiscard]] const HostProgram& program() const noexcept { return program_; }
  [[nodiscard]] std::int64_t code_bytes() const noexcept { return code_bytes_; }

  /// The program in the loop order of `tile` instead; it must share code with the kernel's own.
  [[nodiscard]] HostProgram in_order_of(const HostTile& tile) const;

 private:
  [[nodiscard]] bool straddles_lines(const Product& product) const;
  [[nodiscard]] WorkspaceSize copy_size(Layout layout) const;
  void run_copied(const Product& product) const;
  void copy_rows_of_b(const Product& from, const RowRange& rows, float* to) const;

  ExecutableCode code_;
  std::int64_t code_bytes_ = 0;
  HostProgram program_;
  HostSplit split_;
  WorkspaceSize workspace_;  ///< of one run
};

}  // namespace spjit
