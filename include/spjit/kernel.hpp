#pragma once

/// @file
/// A compiled kernel: C = A * B for one A, on this CPU or on a GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spjit/arguments.hpp"
#include "spjit/convolution.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/export.hpp"
#include "spjit/kernel_info.hpp"
#include "spjit/layout.hpp"
#include "spjit/matrix.hpp"
#include "spjit/parallel_for.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// C `[m x n]` = A `[m x k]` * B `[k x n]` for the A it was compiled from; alpha = 1, beta = 0,
/// fp32. Every element of C is written, rows of A without entries as +0. Kernels of a CPU with
/// AVX2 and of GPUs give the same bits (fused, columns ascending).
///
/// Copies share one kernel. All members are const and thread-safe: any number of threads may run
/// one kernel at once on different C. On the host each run takes a workspace from a pool. The pool
/// grows to the largest number of simultaneous runs and is then reused, so nothing is allocated in
/// steady state.
///
/// B and C must not overlap. No alignment is needed beyond that of float, but 64 bytes is fastest.
/// A run may copy a B with less alignment, of up to 256 MB, into its workspace.
class SPJIT_EXPORT Kernel {
 public:
  [[nodiscard]] const KernelInfo& info() const noexcept;
  [[nodiscard]] std::int64_t rows() const noexcept { return info().rows; }
  [[nodiscard]] std::int64_t cols() const noexcept { return info().cols; }
  [[nodiscard]] std::int64_t n() const noexcept { return info().n; }

  /// Computes C of operands in host memory and returns when it is done. On a GPU B is copied there
  /// and C back, for tests and first steps: the copies take longer than the kernel.
  ///
  /// Throws DeviceError, and InvalidArgument for
  /// - a null pointer to a non-empty array
  /// - elements of another type than the kernel takes, or a residual whose layout is not C's
  /// - a leading dimension below n, or so large that an operand would have 2^63 bytes or more
  /// - sizes that the kernel was not compiled for, or panels for a kernel that takes none
  /// - a kernel for a GPU that is not loaded
  void run(const Arguments& arguments) const;
  /// B and C row-major, as compiled for: without other sizes in the problem, contiguous.
  void run(const float* b, float* c) const;
  /// B and C row-major with leading dimensions (elements between rows). On the host any ldb, ldc >=
  /// n.
  void run(const float* b, std::int64_t ldb, float* c, std::int64_t ldc) const;

  /// Bytes that Arguments::workspace must have for such a run; 0: it needs none, as on a GPU. Of
  /// the operands only sizes, layouts and leading dimensions count, not where they lie: pointers
  /// may be null. Throws InvalidArgument as run().
  [[nodiscard]] std::int64_t workspace_bytes(const Arguments& arguments) const;

  /// Prepares A's values for runs of a kernel that has only A's pattern (Problem::runtime_values).
  /// `values` are in the order of A's CSR with ascending columns, and are copied. On a GPU they are
  /// copied there. Throws InvalidArgument for a kernel that has its values, one that is not loaded
  /// and another number of values than info().nnz; NoMemory; DeviceError.
  [[nodiscard]] PreparedValues prepare_values(std::span<const float> values) const;
  /// Prepares the values of a matrix with A's pattern, whose rows may have columns in any order.
  /// For a convolution with groups it has the channels of a group or of all. Also throws
  /// InvalidMatrix, and InvalidArgument for another pattern and for a linked kernel, which does not
  /// know its own.
  [[nodiscard]] PreparedValues prepare_values(const CsrMatrix& a) const;

  /// Panel-major B and C, for chains of layers. Panel p holds columns [p * w, (p + 1) * w) as
  /// consecutive rows of w = info().panel_columns elements. They are zero past column n (of C: if A
  /// is finite). Panels are `panel_stride` elements apart. C of one layer is B of the next if both
  /// have the same w (see Problem::panel_columns). Nothing is packed, nor copied where B begins at
  /// a cache line. Throws InvalidArgument for a kernel that reads B in place (KernelInfo::tile says
  /// "in-place"), which one compiled with panel_columns never does, and for kernels of GPUs.
  void run_panels(const float* b_panels, float* c_panels) const;

  /// Elements a panel-major array of `rows` rows has (k rows for B, m for C). This and what follows
  /// throws InvalidArgument for rows outside [0, 2^31) and for a kernel without panels.
  [[nodiscard]] std::int64_t panel_elements(std::int64_t rows) const;
  /// Elements between panels of an array of `rows` rows.
  [[nodiscard]] std::int64_t panel_stride(std::int64_t rows) const;
  /// Row-major `[rows x n]` to panel-major and back. Throw InvalidArgument also for a leading
  /// dimension below n or a null pointer to an array with rows.
  void to_panels(const float* dense, std::int64_t ld, std::int64_t rows, float* panels) const;
  void from_panels(const float* panels, std::int64_t rows, float* dense, std::int64_t ld) const;

  /// A kernel for a GPU, loaded into one of this machine, all of it, now: launches load nothing.
  /// Copies share it; the last one unloads it. A host kernel gives itself. Throws NotSupported, in
  /// one line, without a driver or GPU and for a GPU of another architecture. Throws
  /// InvalidArgument for an ordinal that is not there, and DeviceError.
  [[nodiscard]] Kernel load(int device = 0) const;
  /// The GPU it is loaded into; -1 for none.
  [[nodiscard]] int device() const noexcept;

  /// Puts one launch of a loaded kernel into `arguments.stream` and returns. Nothing is loaded or
  /// allocated, so a graph may be capturing the stream. B and C are device memory. Streams are
  /// those of the Driver API (CUstream, or the runtime's cudaStream_t), of the device's primary
  /// context. On the host it is run(). Throws as run().
  void launch(const Arguments& arguments) const;
  void launch(const float* b, float* c, void* stream = nullptr) const;

  /// Blocks an SM holds at once, as the driver says. For loaded kernels of a GPU; else throws
  /// InvalidArgument.
  [[nodiscard]] std::int64_t driver_active_blocks() const;

  /// The kernel as files and its record, made when they are first asked for.
  [[nodiscard]] const Artifact& artifact() const;
  [[nodiscard]] const std::string& record() const { return artifact().record; }
  /// The cubin of a kernel for a GPU. Any GPU of this architecture's major version and at least its
  /// minor one runs it. Empty for other kernels. The two texts are the kernel as readable CUDA C++
  /// and as PTX, all units one after another; empty unless CompileOptions::keep_source asked for
  /// them.
  [[nodiscard]] std::span<const std::byte> image() const;
  [[nodiscard]] std::string cuda_source() const;
  [[nodiscard]] std::string ptx() const;

  /// A kernel from what artifact() gave or `spjit compile --emit` wrote: needs neither matrix nor
  /// cache. Files without an owner are copied. A cubin may also be PTX, which the driver then
  /// compiles. Throws
  /// - Error if a file or the record is missing or damaged, or they do not belong together
  /// - NotSupported if this CPU lacks the instruction set
  /// - InvalidArgument for threads outside 0 (all) .. 4096
  /// `parallel_for`: where runs have their threads; empty: in threads of the kernel's own.
  [[nodiscard]] static Kernel from_artifact(Artifact artifact, int threads = 1,
                                            ParallelFor parallel_for = {});

  /// A host kernel as an x86-64 ELF object that `ld` takes. Its symbols are `spjit_<name>_text`,
  /// `_weights` and `_program`; `aot_header()` declares them. `name` must be a C identifier. These
  /// throw NotSupported for families that cannot be linked.
  [[nodiscard]] std::vector<std::byte> object(const std::string& name) const;
  /// A C++ header for programs that link the object and libspjit. They need neither the matrix nor
  /// a cache nor LLVM. `spjit::Kernel <name>(int threads = 1)` makes the kernel.
  /// `<name>(kernel, b, c, ...)` runs it, and has a parameter for each operand that a run needs.
  [[nodiscard]] std::string aot_header(const std::string& name) const;

  /// Where a linked object's parts lie; what the generated header passes to `link()`.
  struct LinkedObject {
    const void* text = nullptr;
    std::size_t text_bytes = 0;
    const void* weights = nullptr;
    std::size_t weights_bytes = 0;
    const void* program = nullptr;
    std::size_t program_bytes = 0;
  };
  /// Makes a kernel of an object that is part of this program. Throws
  /// - Error if the program record is damaged or of another format version
  /// - NotSupported if this CPU lacks the instruction set
  /// - InvalidArgument for a null part and for threads outside 0 (all) .. 4096
  [[nodiscard]] static Kernel link(const LinkedObject& object, int threads = 1);

  class Impl;  // defined in the library
  explicit Kernel(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spjit
