#pragma once

/// @file
/// What an SpmmKernel holds.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/executable_code.hpp"
#include "base/file_descriptor.hpp"
#include "base/float_buffer.hpp"
#include "base/thread_pool.hpp"
#include "kernels/csr/csr_kernel.hpp"
#include "kernels/sliced/sliced_kernel.hpp"
#include "kernels/unrolled_host/host_executor.hpp"
#include "kernels/unrolled_host/host_program.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// A workspace that cannot be allocated.
class NoMemory : public Error {
 public:
  using Error::Error;
};

struct WorkspaceSize {
  std::int64_t floats = 0;
  std::int64_t touched = 0;  ///< how many of them a run touches at most
};

/// Lends 64-byte-aligned float buffers; returned ones are kept for the next borrower.
class WorkspacePool {
 public:
  class Loan {
   public:
    /// Throws NoMemory if the machine has not so much memory.
    Loan(const WorkspacePool& pool, const WorkspaceSize& wanted);
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan();

    [[nodiscard]] float* data() const noexcept { return buffer_.data(); }

   private:
    const WorkspacePool& pool_;
    FloatBuffer buffer_;
  };

 private:
  mutable std::mutex mutex_;
  mutable std::vector<FloatBuffer> idle_;
};

/// What keeps the memory behind an image alive; empty for code linked into the program.
struct ImageOwner {
  std::shared_ptr<const FileBytes> object;       ///< an ELF object the image points into, or
  std::shared_ptr<const HostArtifact> artifact;  ///< the parts as they were compiled
};

/// A loaded kernel. Immutable once made, but for its pool of workspaces.
class SpmmKernel::Impl {
 public:
  /// Copies the text of `image` into executable pages. Throws as read_program() does, and
  /// NotSupported if this CPU lacks the instruction set.
  [[nodiscard]] static std::shared_ptr<Impl> load(const HostImage& image, ImageOwner owner,
                                                  std::shared_ptr<ThreadPool> pool,
                                                  const Cancellation& cancel = {});
  /// Uses the text where it is.
  [[nodiscard]] static std::shared_ptr<Impl> link(const HostImage& image,
                                                  std::shared_ptr<ThreadPool> pool);

  void run(const HostOperands& operands) const;

  /// The program walked as `tile` says instead; it must share code with the kernel's own.
  [[nodiscard]] HostProgram walked(const HostTile& tile) const;

  KernelInfo info;
  std::string record_json = "{}";
  HostImage image;
  HostProgram program;

 private:
  Impl(const HostImage& image_in, ImageOwner owner, std::shared_ptr<ThreadPool> pool);
  void prepare(HostProgramRecord record, const std::byte* text, const Cancellation& cancel);
  void prepare_unrolled(HostProgramRecord record, const std::byte* text);
  void prepare_csr(HostProgramRecord record);
  void run_csr_kernel(const HostOperands& operands) const;
  void run_sliced(const HostOperands& operands) const;
  /// Calls `part` for each of the parts, in the pool's threads if there is one.
  template <class Part>
  void run_parts(const std::vector<RowRange>& parts, const Part& part) const;
  void run_unrolled(const HostOperands& operands) const;

  ImageOwner owner_;
  std::shared_ptr<ThreadPool> pool_;
  ExecutableCode code_;
  HostSplit split_;
  WorkspaceSize workspace_;  ///< of one run of unrolled code
  std::vector<std::int64_t> csr_row_ptrs_;
  CsrView csr_;
  std::vector<RowRange> csr_parts_;
  SlicedMatrix sliced_;
  std::vector<RowRange> sliced_parts_;
  WorkspacePool workspaces_;
};

}  // namespace spjit
