#pragma once

/// @file
/// A compiled kernel: C = A * B for one A.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "spjit/export.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// How a kernel computes.
enum class KernelKind : std::uint8_t {
  unrolled,  ///< A's positions are instructions
  csr,       ///< over the code budget, or no emitter here: a loop that reads A from memory
  sliced,    ///< n of 1 to 4, AVX-512: the same, on sixteen rows at once
};

/// "unrolled", "csr", "sliced".
[[nodiscard]] SPJIT_EXPORT std::string to_string(KernelKind kind);

/// What is known about a compiled kernel.
struct KernelInfo {
  KernelKind kind = KernelKind::unrolled;
  Target target;
  std::int64_t rows = 0;  ///< m
  std::int64_t cols = 0;  ///< k
  std::int64_t n = 0;
  std::int64_t nnz = 0;
  int threads = 1;
  std::string tile;                ///< e.g. "28x1 k512 g8 r0 packed broadcast m1"; empty for others
  std::string reason;              ///< why this kind and tile, in one line
  std::int64_t code_bytes = 0;     ///< machine code
  std::int64_t weight_bytes = 0;   ///< values (and for csr and sliced positions) in the record
  std::int64_t panel_columns = 0;  ///< columns a panel of B and C
  std::string key;                 ///< cache key, 64 hexadecimal digits
  /// This and what follows is about the call that made or loaded it. Others that asked for the same
  /// kernel meanwhile (Compiler::compile()) share it, with this info.
  bool from_cache = false;
  std::string cache_directory;  ///< the cache or layer it came from; empty unless from_cache
  double compile_ms = 0;        ///< from matrix to callable kernel, without the check
  Verification verification;    ///< what was checked before it was handed out
  std::string note;  ///< what the user should know (cache not usable, rules relaxed); or empty
  /// Why the cache directory could not take a new kernel (a full disk, say), which `note` says too;
  /// empty otherwise.
  std::string not_cached;
};

/// C `[m x n]` = A `[m x k]` * B `[k x n]` for the A it was compiled from; alpha = 1, beta = 0,
/// fp32. Every element of C is written, rows of A without entries as +0.
///
/// Copies share one kernel. All members are const and thread-safe: any number of threads may run
/// one kernel at once on different C. Each run takes a workspace from a pool that grows to the
/// largest number of simultaneous runs and is then reused: no allocation in steady state.
///
/// B and C must not overlap. No alignment is needed beyond that of float; 64 bytes is fastest.
class SPJIT_EXPORT SpmmKernel {
 public:
  [[nodiscard]] const KernelInfo& info() const noexcept;
  [[nodiscard]] std::int64_t rows() const noexcept { return info().rows; }
  [[nodiscard]] std::int64_t cols() const noexcept { return info().cols; }
  [[nodiscard]] std::int64_t n() const noexcept { return info().n; }

  /// B and C row-major and contiguous: ldb = ldc = n.
  void run(const float* b, float* c) const;

  /// B and C row-major with leading dimensions (floats between rows). Any ldb, ldc >= n work.
  /// Throws InvalidArgument for a leading dimension below n, or so large that rows of B or C would
  /// be 2^63 bytes apart or more in all, or a null pointer to a non-empty array.
  void run(const float* b, std::int64_t ldb, float* c, std::int64_t ldc) const;

  /// Panel-major B and C, for chains of layers: panel p holds columns [p * w, (p + 1) * w) as
  /// consecutive rows of w = info().panel_columns floats, zero past column n (of C: if A is
  /// finite); panels are `panel_stride` floats apart. C of one layer is B of the next if both have
  /// the same w (see CompileOptions::panel_columns). Nothing is packed or copied. Throws
  /// InvalidArgument for a kernel that reads B in place (KernelInfo::tile says "in-place"); one
  /// compiled with panel_columns never does.
  void run_panels(const float* b_panels, float* c_panels) const;

  /// Floats a panel-major array of `rows` rows has (k rows for B, m for C). Throws InvalidArgument
  /// for rows outside [0, 2^31).
  [[nodiscard]] std::int64_t panel_floats(std::int64_t rows) const;
  /// Floats between panels of an array of `rows` rows. Throws as panel_floats().
  [[nodiscard]] std::int64_t panel_stride(std::int64_t rows) const;
  /// Row-major `[rows x n]` to panel-major and back. Throw InvalidArgument for rows outside
  /// [0, 2^31), a leading dimension below n or a null pointer to an array with rows.
  void to_panels(const float* dense, std::int64_t ld, std::int64_t rows, float* panels) const;
  void from_panels(const float* panels, std::int64_t rows, float* dense, std::int64_t ld) const;

  /// The kernel's record as JSON text: shape, tile, search trace, sizes.
  [[nodiscard]] const std::string& record() const noexcept;

  /// The kernel as an x86-64 ELF object that `ld` takes. Its symbols are `spjit_<name>_text`,
  /// `_weights` and `_program`; `aot_header()` declares them. `name` must be a C identifier.
  [[nodiscard]] std::vector<std::byte> object(const std::string& name) const;
  /// A C++ header with `spjit::SpmmKernel <name>(int threads = 1)`, for programs that link the
  /// object and libspjit and then need neither the matrix nor a cache nor LLVM.
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
  /// Makes a kernel of an object that is part of this program. Throws Error if the program record
  /// is damaged or of another format version, NotSupported if this CPU lacks the instruction set,
  /// InvalidArgument for a null part and for threads outside 0 (all) .. 4096.
  [[nodiscard]] static SpmmKernel link(const LinkedObject& object, int threads = 1);

  class Impl;  // defined in the library
  explicit SpmmKernel(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spjit
