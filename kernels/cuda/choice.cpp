#include "kernels/cuda/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// Bytes of code of a network from which on code comes from DRAM or from the far half of L2, at
/// half the speed (an H100: 16 MiB is near, 32 MiB is not; docs/results/gpu.md).
constexpr std::int64_t k_far_code_bytes = std::int64_t{32} << 20;
/// Where `csr` was faster in such networks on an H200: at 80 to 95 % zeros and n of 512. With fewer
/// zeros it takes about twice as long as unrolled code from near; with more columns a tile's code
/// is fetched for more work.
constexpr double k_sparse_for_csr = 0.25;
constexpr std::int64_t k_columns_for_csr = 1024;

Reason code_of_a_large_network(const FamilyRequest& request, const KernelFamily& /*family*/) {
  const Problem& problem = request.problem;
  const SearchPolicy& policy = request.options.policy;
  const std::int64_t entries = std::max(policy.network_nnz, problem.a->nnz());
  if (policy.hot || entries < k_far_code_bytes / k_cuda_instruction_bytes ||
      problem.n.value > k_columns_for_csr || entry_share_of(*problem.a) > k_sparse_for_csr) {
    return std::nullopt;
  }
  return Refusal(fmt::format(
      "code of the network's {} nonzeros comes from far; A as data is a third of it", entries));
}

/// What share of CSR's bytes A may have, so that its values are worth their unpacking. Reasoned,
/// not measured: at 16 columns and fewer bytes of A decide.
constexpr double k_most_of_csr = 2.0 / 3;

Reason too_few_bytes_less(const FamilyRequest& request, const KernelFamily& family) {
  const double nnz = as_double(request.problem.a->nnz());
  const double bytes = family.bytes_of_a(request);
  if (bytes <= k_most_of_csr * nnz * k_csr_entry_bytes) return std::nullopt;
  return Refusal(
      fmt::format("it moves {:.0f} bytes of A, as CSR they are {:.0f}: by count more than "
                  "two thirds",
                  bytes, nnz * k_csr_entry_bytes));
}

constexpr std::array k_cuda_rules = {
    ChoiceRule{"packed", "bitmaps and packed values have over two thirds of the bytes of CSR",
               too_few_bytes_less},
    ChoiceRule{"dense", "n is 1 to 16", too_few_columns},
    ChoiceRule{"dense",
               "A has fewer than 85 % of its entries, or 20 % where code is over its budget",
               too_many_zeros},
    ChoiceRule{"unrolled",
               "the network has 32 MiB of code or more, A 75 % zeros or more, and n is up to 1024, "
               "unless the policy says hot",
               code_of_a_large_network}};

}  // namespace

std::span<const ChoiceRule> cuda_choice() noexcept { return k_cuda_rules; }

}  // namespace spjit
