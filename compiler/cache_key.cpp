#include "compiler/cache_key.hpp"

#include <span>

#include "compiler/host_program.hpp"
#include "runtime/hash.hpp"
#include "spjit/version.hpp"

namespace spjit {

std::string cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                      const HostLimits& limits) {
  KeyBuilder key;
  key.field("spjit", SPJIT_VERSION)
      .field("program_version", k_host_program_version)
      .field("target", options.target.name())
      .field("rows", matrix.rows)
      .field("cols", matrix.cols)
      .field("row_ptrs", std::as_bytes(std::span(matrix.row_ptrs)))
      .field("col_idxs", std::as_bytes(std::span(matrix.col_idxs)))
      .field("values", std::as_bytes(std::span(matrix.values)))
      .field("dtype", "fp32")
      .field("epilogue", "none")
      .field("n", options.n)
      .field("ldb", options.ldb)
      .field("threads", options.threads)
      .field("reorder", to_string(options.reorder))
      .field("search", to_string(options.search))
      .field("code_budget_bytes", options.code_budget_bytes)
      .field("panel_columns", options.panel_columns.value_or(0))
      .field("l1i_bytes", limits.l1i_bytes)
      .field("l1d_bytes", limits.l1d_bytes)
      .field("l2_bytes", limits.l2_bytes)
      .field("fmas_per_cycle", limits.fmas_per_cycle);
  if (options.search == SearchMode::exhaustive) {
    // What was measured, and how long, decided.
    key.field("device", limits.name)
        .field("search_budget_us", static_cast<std::int64_t>(options.search_budget_ms * 1000));
  }
  return key.hex();
}

}  // namespace spjit
