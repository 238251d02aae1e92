#pragma once

/// @file
/// Facts about a compiled kernel, and a kernel as files.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spjit/convolution.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/layout.hpp"
#include "spjit/numerics.hpp"
#include "spjit/target.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// Facts about a kernel for a GPU. None of them needs a GPU.
struct CudaKernelInfo {
  int arch = 0;                          ///< of the code: 90 is sm_90
  std::string compiled_from;             ///< "ptx" or "cuda"
  std::string toolchain;                 ///< e.g. "nvJitLink 13.0"
  std::int64_t threads = 0;              ///< a block
  std::int64_t blocks_x = 0;             ///< of a launch: row tiles and parts of the empty rows
  std::int64_t blocks_y = 0;             ///< of a launch at this n: column tiles
  std::int64_t predicted_registers = 0;  ///< a thread, from the plan
  std::int64_t registers = 0;            ///< a thread, as the cubin says
  std::int64_t spilled_bytes = 0;        ///< a thread, local memory, as the cubin says
  std::int64_t active_blocks = 0;        ///< on an SM at once, from the real registers
};

/// Facts about a compiled kernel.
struct KernelInfo {
  /// How it computes. On a host (docs/design/host.md):
  /// - "unrolled": A's positions are instructions
  /// - "windows": n of 1 to 4, with scales of groups any; a loop over A, a vector of rows at once
  ///   (AVX-512, AVX2)
  /// - "compact": a loop over A with short column numbers (AVX-512, AVX2)
  /// - "dense": a loop over A with its zeros (AVX-512, AVX2)
  /// - "csr": a loop over A
  /// - "byte_windows": exact sums of bytes (AVX-512, AVX2)
  /// - "reference": slow, takes every problem
  /// On a GPU "unrolled", "packed", "narrow" (n of 1 to 16), "dense", "csr" (docs/design/cuda.md).
  std::string family;
  Target target;
  std::string device;      ///< what the choice was made for: "AMD EPYC 9354", "H200 SXM"
  std::int64_t rows = 0;   ///< m
  std::int64_t cols = 0;   ///< k
  std::int64_t n = 0;      ///< columns of B and C; of a run-time n the typical value
  bool runtime_n = false;  ///< n and the leading dimensions are what a run says
  std::int64_t ldb = 0;    ///< leading dimension of B that it was compiled for
  std::int64_t ldc = 0;    ///< leading dimension of C that it was compiled for
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  /// B and C of a run may have other layouts than these, and rows of a residual any distance.
  bool any_layout = true;
  /// Leading dimensions of B and C that a run may have at most; 0: those it was compiled for.
  std::int64_t most_leading_dimension = std::numeric_limits<std::int64_t>::max();
  Epilogue epilogue = {};
  bool runtime_values = false;  ///< A's values are an operand of each run
  /// With the channels of all groups as one; of a 1x1 kernel that is a plain product none.
  std::optional<Convolution> convolution = {};
  Numerics numerics = {};          ///< types of A, B and C, and the promise on the sums
  std::int64_t group_columns = 0;  ///< of A that have a scale (GroupScales); 0: it has none
  std::int64_t nnz = 0;
  bool reads_a = true;  ///< A is data of the kernel; else its positions are in the code
  int threads = 1;      ///< of a run on the host
  std::string tile;     ///< e.g. "rows=28 vectors=1 panels=8 packed"; empty for families without
  std::string reason;   ///< why this family and tile, in one line
  std::int64_t code_bytes = 0;     ///< machine code
  std::int64_t weight_bytes = 0;   ///< values (and where A is read, positions) beside the code
  std::int64_t panel_columns = 0;  ///< columns a panel of panel-major B and C; 0: it takes none
  std::optional<CudaKernelInfo> cuda = {};  ///< of a kernel for a GPU
  std::string key;                          ///< cache key, 64 hexadecimal digits; or empty
  /// This and what follows is about the call that made or loaded it. Others that asked for the same
  /// kernel meanwhile (Compiler::compile()) share it, with this info.
  bool from_cache = false;
  std::string cache_directory;  ///< the cache or layer it came from; empty unless from_cache
  double compile_ms = 0;        ///< from problem to kernel, without the check
  Verification verification;    ///< what was checked before it was handed out
  std::string
      note;  ///< what the user should know (cache not usable, rules relaxed, spills); or empty
  /// Why the cache directory could not take a new kernel (a full disk, say), which `note` says too;
  /// empty otherwise.
  std::string not_cached;
};

/// A kernel as files: what the cache keeps and what `spjit compile --emit` writes. Copies share the
/// bytes.
struct Artifact {
  struct File {
    std::string
        name;  ///< "kernel.o"; "kernel.cubin", "kernel.matrix" ... (docs/design/cache-format.md)
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner = nullptr;  ///< of the bytes; null: they are borrowed
  };
  std::vector<File> files = {};
  std::string record =
      "{}";  ///< JSON text: problem, choice, search, sizes (docs/design/cache-format.md)

  /// Adds a file that owns its bytes.
  void add(std::string name, std::vector<std::byte> bytes) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    files.push_back({std::move(name), *owner, owner});
  }

  /// The bytes of a file; empty if there is none of that name.
  [[nodiscard]] std::span<const std::byte> file(std::string_view name) const noexcept {
    for (const File& file : files) {
      if (file.name == name) return file.bytes;
    }
    return {};
  }
};

}  // namespace spjit
