#include "compiler/cuda_candidate.hpp"

#include <algorithm>
#include <iterator>

namespace spjit {

std::string_view to_string(CudaRule rule) {
  switch (rule) {
    case CudaRule::registers:
      return "registers";
    case CudaRule::code_budget:
      return "code budget";
    case CudaRule::occupancy:
      return "occupancy";
    case CudaRule::balance:
      return "balance";
  }
  return "?";
}

std::vector<CudaCandidate> CudaTileSpace::survivors() const {
  std::vector<CudaCandidate> kept;
  std::ranges::copy_if(candidates, std::back_inserter(kept),
                       [](const CudaCandidate& candidate) { return !candidate.dropped; });
  return kept;
}

std::int64_t register_cap(const CudaLimits& limits, std::int64_t n1, std::int64_t min_blocks) {
  constexpr std::int64_t k_step = 8;  // a warp's registers come in 256: eight a thread
  // Each sub-partition holds its own share of registers and of the blocks' warps.
  const std::int64_t warps = (n1 + limits.warp_size - 1) / limits.warp_size;
  const std::int64_t slots =
      (warps * min_blocks + limits.sub_partitions - 1) / limits.sub_partitions;
  const std::int64_t share = limits.registers_per_sm / limits.sub_partitions;
  const std::int64_t cap = share / (slots * limits.warp_size) / k_step * k_step;
  return std::min(std::max(cap, k_step), limits.registers_per_thread);
}

}  // namespace spjit
