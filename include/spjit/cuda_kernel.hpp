#pragma once

/// @file
/// A kernel compiled for an NVIDIA GPU: C = A * B for one A.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "spjit/export.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// What is known about a compiled CUDA kernel. Nothing of it but `verification` needs a GPU.
struct CudaKernelInfo {
  Target target;
  std::string device;     ///< the card the tile was chosen for, e.g. "H200 SXM"
  int arch = 0;           ///< of the code: 90 is sm_90
  std::int64_t rows = 0;  ///< m
  std::int64_t cols = 0;  ///< k
  std::int64_t n = 0;
  std::int64_t ldb = 0;  ///< floats between rows of B
  std::int64_t ldc = 0;  ///< floats between rows of C
  std::int64_t nnz = 0;
  bool runtime_sizes = false;            ///< n, ldb and ldc are what a launch says, not constants
  std::string tile;                      ///< e.g. "32x128 u2048"
  std::string reason;                    ///< why this tile, in one line
  std::string compiled_from;             ///< "ptx" or "cuda"
  std::string toolchain;                 ///< e.g. "nvJitLink 13.0"
  std::int64_t threads = 0;              ///< a block
  std::int64_t blocks_x = 0;             ///< of a launch: row tiles and parts of the empty rows
  std::int64_t blocks_y = 0;             ///< of a launch at this n: column tiles
  std::int64_t predicted_registers = 0;  ///< a thread, from the plan
  std::int64_t registers = 0;            ///< a thread, as the cubin says
  std::int64_t spilled_bytes = 0;        ///< a thread, local memory, as the cubin says
  std::int64_t active_blocks = 0;        ///< on an SM at once, from the real registers
  std::int64_t code_bytes = 0;           ///< instructions in the cubin
  std::string key;                       ///< cache key, 64 hexadecimal digits; or empty
  bool from_cache = false;               ///< this and what follows as in KernelInfo
  std::string cache_directory;  ///< the cache or layer it came from; empty unless from_cache
  double compile_ms = 0;        ///< from matrix to cubin, without the check
  Verification verification;    ///< what was checked before it was handed out
  std::string note;             ///< what the user should know (rules relaxed, spills); or empty
  std::string not_cached;       ///< as in KernelInfo
};

/// Operands of a launch, in device memory. Both row-major.
struct CudaOperands {
  const float* b = nullptr;  ///< `[k x n]`
  std::int64_t ldb = 0;      ///< floats between rows, >= n
  float* c = nullptr;        ///< `[m x n]`
  std::int64_t ldc = 0;      ///< floats between rows, >= n
  std::int64_t n = 0;
};

/// A kernel loaded into one GPU. Copies share it; the last one unloads it. All members are const
/// and thread-safe. Streams are those of the Driver API (CUstream, or the runtime's cudaStream_t):
/// of the device's primary context, null for the default stream.
class SPJIT_EXPORT PreparedCudaKernel {
 public:
  [[nodiscard]] int device() const noexcept;

  /// Puts one launch into the stream and returns; nothing is loaded or allocated, so the stream may
  /// be one that is being captured into a graph. `b` and `c` are device pointers with the leading
  /// dimensions of CudaKernelInfo. B and C must not overlap. Throws InvalidArgument for a null
  /// pointer to a non-empty array, DeviceError.
  void launch(const float* b, float* c, void* stream = nullptr) const;

  /// The same with sizes. Throws InvalidArgument also for a leading dimension below n, and, unless
  /// the kernel was compiled with runtime sizes, for any other than CudaKernelInfo's.
  void launch(const CudaOperands& operands, void* stream = nullptr) const;

  /// Host memory to host memory: copies B, launches, waits, copies C back; allocates device memory
  /// for both. For tests and first steps: the copies take longer than the kernel.
  void run(const float* b, float* c) const;

  /// Blocks an SM holds at once, as the driver says.
  [[nodiscard]] std::int64_t driver_active_blocks() const;

  class Impl;  // defined in the library
  explicit PreparedCudaKernel(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

/// C `[m x n]` = A `[m x k]` * B `[k x n]` for the A it was compiled from; alpha = 1, beta = 0,
/// fp32. Every element of C is written, rows of A without entries as +0; C has the bits of the host
/// kernels of the same A (fused, columns ascending). Immutable; copies share one kernel; all
/// members are const and thread-safe.
class SPJIT_EXPORT CudaKernel {
 public:
  [[nodiscard]] const CudaKernelInfo& info() const noexcept;
  /// The code: a cubin, which any GPU of this architecture's major version and at least its minor
  /// one runs.
  [[nodiscard]] std::span<const std::byte> image() const noexcept;
  /// The kernel as readable CUDA C++ and as PTX: all units, one after another.
  [[nodiscard]] std::string cuda_source() const;
  [[nodiscard]] std::string ptx() const;
  /// The kernel's record as JSON text: shape, tile, search, resources (docs/cache-format.md).
  [[nodiscard]] const std::string& record() const noexcept;

  /// Loads the kernel into a GPU of this machine, all of it, now: launches load nothing. Throws
  /// NotSupported, in one line, without a driver or GPU and for a GPU of another architecture;
  /// InvalidArgument for an ordinal that is not there; DeviceError.
  [[nodiscard]] PreparedCudaKernel prepare(int device = 0) const;

  /// A kernel from an image and the record that `spjit compile --emit cubin,json` or `image()` and
  /// `record()` gave: needs neither matrix nor cache. The image may also be PTX, which the driver
  /// then compiles. Throws Error if one of them is damaged or they do not belong together.
  [[nodiscard]] static CudaKernel load(std::span<const std::byte> image, const std::string& record);

  class Impl;  // defined in the library
  explicit CudaKernel(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace spjit
