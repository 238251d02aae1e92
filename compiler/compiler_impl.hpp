#pragma once

/// @file
/// What a Compiler holds.

#include <memory>
#include <optional>
#include <string>

#include "compiler/cuda_kernel_impl.hpp"
#include "compiler/cuda_limits.hpp"
#include "compiler/device_limits.hpp"
#include "compiler/host_rank_model.hpp"
#include "compiler/spmm_kernel_impl.hpp"
#include "runtime/cache_layers.hpp"
#include "runtime/thread_pool.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

struct Compiler::Impl {
  CompileOptions options;
  HostLimits limits;                                ///< of a host target
  std::optional<CudaLimits> cuda_limits;            ///< of a GPU target
  std::shared_ptr<const HostRankModel> rank_model;  ///< null: instant mode, or the prior ranks
  std::string cache_note;
  std::optional<LayeredCache> cache;
  std::shared_ptr<ThreadPool> pool;  ///< shared by all kernels; null for one thread

  [[nodiscard]] std::shared_ptr<SpmmKernel::Impl> from_cache(const std::string& key,
                                                             std::string& note) const;
  [[nodiscard]] std::shared_ptr<SpmmKernel::Impl> fresh(const CsrMatrix& matrix,
                                                        const std::string& key,
                                                        std::string& note) const;
  [[nodiscard]] std::shared_ptr<CudaKernel::Impl> cuda_from_cache(const std::string& key,
                                                                  std::string& note) const;
  [[nodiscard]] std::shared_ptr<CudaKernel::Impl> cuda_fresh(const CsrMatrix& matrix,
                                                             const std::string& key,
                                                             std::string& note) const;
};

/// The options with defaults filled in. Throws InvalidArgument for what is out of range.
[[nodiscard]] CompileOptions checked_options(CompileOptions options);

/// Rows sorted by column, as plans need them; `copy` is filled only if they are not.
[[nodiscard]] const CsrMatrix& sorted_rows(const CsrMatrix& matrix, CsrMatrix& copy);

}  // namespace spjit
