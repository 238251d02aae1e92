#include "compiler/cache_key.hpp"

#include <span>
#include <string>

#include "base/hash.hpp"
#include "kernels/unrolled_cuda/cuda_artifact.hpp"
#include "kernels/unrolled_cuda/cuda_emitter.hpp"
#include "kernels/unrolled_cuda/ptx_emitter.hpp"
#include "kernels/unrolled_host/host_program.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

/// Version, target, A, and what both kinds of target have.
KeyBuilder begin_key(const CsrMatrix& matrix, const CompileOptions& options,
                     std::int64_t program_version, const std::string& target,
                     const Cancellation& cancel) {
  KeyBuilder key(cancel);
  key.field("spjit", SPJIT_VERSION)
      .field("program_version", program_version)
      .field("target", target)
      .field("rows", matrix.rows)
      .field("cols", matrix.cols)
      .field("row_ptrs", std::as_bytes(std::span(matrix.row_ptrs)))
      .field("col_idxs", std::as_bytes(std::span(matrix.col_idxs)))
      .field("values", std::as_bytes(std::span(matrix.values)))
      .field("dtype", "fp32")
      .field("epilogue", "none")
      .field("n", options.n)
      .field("ldb", options.ldb);
  return key;
}

}  // namespace

std::string cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                      const HostDeviceInfo& limits, const std::string& rank_model,
                      const Cancellation& cancel) {
  KeyBuilder key =
      begin_key(matrix, options, k_host_program_version, options.target.name(), cancel);
  key.field("threads", options.threads)
      .field("reorder", to_string(options.reorder))
      .field("search", to_string(options.search))
      .field("code_budget_bytes", options.code_budget_bytes)
      .field("panel_columns", options.panel_columns.value_or(0))
      .field("l1i_bytes", limits.l1i_bytes)
      .field("l1d_bytes", limits.l1d_bytes)
      .field("l2_bytes", limits.l2_bytes)
      .field("fmas_per_cycle", limits.fmas_per_cycle);
  if (options.search != SearchMode::instant) {
    // What was measured, of how many, and how long, decided.
    key.field("device", limits.name)
        .field("rank_model", rank_model)
        .field("search_contenders", options.search_contenders)
        .field("search_budget_us", static_cast<std::int64_t>(options.search_budget_ms * 1000));
  }
  return key.hex();
}

std::string cuda_cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                           const CudaDeviceInfo& limits, const std::string& timed_on,
                           const Cancellation& cancel) {
  const CudaOptions& cuda = options.cuda;
  constexpr std::int64_t k_chosen = -1;
  // Not the card's name: a table and a driver that agree on a card give one key.
  KeyBuilder key = begin_key(matrix, options, k_cuda_program_version,
                             "sm_" + std::to_string(limits.arch), cancel);
  key.field("ldc", options.ldc)
      .field("cuda_emitter", k_cuda_emitter_version)
      .field("ptx_emitter", k_ptx_emitter_version)
      .field("reorder", to_string(options.reorder))
      .field("search", to_string(options.search))
      .field("code_budget_bytes", options.code_budget_bytes)
      .field("m1", cuda.m1.value_or(k_chosen))
      .field("n1", cuda.n1.value_or(k_chosen))
      .field("runtime_sizes", cuda.runtime_sizes ? 1 : 0)
      .field("source", to_string(cuda.source))
      .field("unit_nonzeros", cuda.unit_nonzeros)
      .field("sms", limits.sms)
      .field("l2_bytes", limits.l2_bytes)
      .field("registers_per_block", limits.registers_per_block)
      .field("registers_per_sm", limits.registers_per_sm)
      .field("threads_per_sm", limits.threads_per_sm)
      .field("blocks_per_sm", limits.blocks_per_sm)
      .field("shared_per_sm_bytes", limits.shared_per_sm_bytes);
  if (options.search != SearchMode::instant) {
    key.field("timed_on", timed_on)
        .field("proxy_source", to_string(cuda.proxy_source))
        .field("search_contenders", options.search_contenders)
        .field("search_budget_us", static_cast<std::int64_t>(options.search_budget_ms * 1000));
  }
  return key.hex();
}

}  // namespace spjit
