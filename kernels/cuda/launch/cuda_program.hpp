#pragma once

/// @file
/// A compiled CUDA kernel of any family outside a GPU, and its record.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/cuda/code/cuda_layer.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

/// The files of a CUDA kernel. The texts, which are there if sources are kept, are compressed by
/// gzip.
inline constexpr const char* k_cubin_file = "kernel.cubin";
inline constexpr const char* k_cuda_file = "kernel.cu.gz";
inline constexpr const char* k_ptx_file = "kernel.ptx.gz";
/// File for values at run time of unrolled code: value_positions(), 32-bit little-endian.
inline constexpr const char* k_positions_file = "kernel.positions";

/// Changes whenever a launch of any family or its record does: part of the cache key.
inline constexpr std::int64_t k_cuda_program_version = 8;

/// The problem that the kernel of a cubin computes. Families add how it is launched.
struct CudaProgram {
  std::int64_t arch = 0;  ///< 90 for sm_90
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  std::int64_t n = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  bool runtime_sizes = false;
  CudaLayer layer = {};

  friend bool operator==(const CudaProgram&, const CudaProgram&) = default;
};

/// Its members of the record's "program", with the version.
[[nodiscard]] nlohmann::json to_json(const CudaProgram& program);
/// Checks every member and their relations; leading dimensions are at most `most_ld`. Throws Error
/// that says what is wrong.
[[nodiscard]] CudaProgram read_cuda_program(const nlohmann::json& json, std::int64_t most_ld);

/// A member of the record of a CUDA kernel. Throws Error that names it if it is missing, of another
/// kind or out of range.
[[nodiscard]] std::int64_t read_cuda_integer(const nlohmann::json& json, const char* name,
                                             std::int64_t least, std::int64_t most);
[[nodiscard]] bool read_cuda_boolean(const nlohmann::json& json, const char* name);
[[nodiscard]] std::string read_cuda_text(const nlohmann::json& json, const char* name);

/// A launch of one product with the columns that a kernel was compiled for.
struct CudaLaunchSize {
  std::int64_t threads = 0;  ///< a block
  std::int64_t blocks_x = 0;
  std::int64_t blocks_y = 0;
};

/// The facts about a kernel in a whole record, members of all families included, and its program.
/// Throws Error that names what is missing.
[[nodiscard]] KernelInfo cuda_info(const nlohmann::json& record, const CudaProgram& program,
                                   const CudaLaunchSize& launch);

}  // namespace spjit
