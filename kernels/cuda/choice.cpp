#include "kernels/cuda/choice.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/refusal.hpp"
#include "kernels/cuda/cuda_rules.hpp"

namespace spjit {
namespace {

using Reason = std::optional<Refusal>;

/// From which share of entries on it leaves nothing to unrolled code. Reasoned, not measured: code
/// takes 1.15 to 1.35 instructions a nonzero, this 1.15 to 1.2 an entry of A, zeros included, and
/// its loop stays in the instruction cache (docs/results/gpu.md).
constexpr double k_denser_than_code = 0.85;
/// From which share of entries on it leaves nothing to a loop over the entries. Reasoned: that loop
/// reads 4 bytes of B a product. An SM gets 20 to 30 a cycle from L2 and 64 to 128 from L1, where
/// it does 64 to 128 products of this family.
constexpr double k_denser_than_loop = 0.2;

Reason too_few_columns(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const Problem& problem = request.problem;
  if (problem.n.value <= k_few_cuda_columns) {
    return Refusal(fmt::format("n is {}: a tile of C would have most of its columns for nothing",
                               problem.n.value));
  }
  return std::nullopt;
}

Reason too_many_zeros(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const Problem& problem = request.problem;
  const double density = entry_share_of(*problem.a);
  const bool has_code =
      least_unrolled_bytes(*problem.a) <= request.options.policy.code_budget_bytes;
  const double least = has_code ? k_denser_than_code : k_denser_than_loop;
  if (density >= least) return std::nullopt;
  return Refusal(fmt::format("{:.1f} % of A are entries; zeros are left out below {:.0f} %",
                             100 * density, 100 * least));
}

constexpr std::array k_cuda_rules = {
    ChoiceRule{"dense", "n is 1 to 16", too_few_columns},
    ChoiceRule{"dense",
               "A has fewer than 85 % of its entries, or 20 % where code is over its budget",
               too_many_zeros}};

}  // namespace

std::span<const ChoiceRule> cuda_choice() noexcept { return k_cuda_rules; }

}  // namespace spjit
