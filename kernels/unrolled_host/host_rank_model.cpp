#include "kernels/unrolled_host/host_rank_model.hpp"

#include <fmt/format.h>

#include "kernels/unrolled_host/host_prior.hpp"
#include "kernels/unrolled_host/sample_reader.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options) {
  if (options.policy.rank_model.empty()) return shipped_host_model(options.target.isa());
  if (options.policy.rank_model == k_host_prior_name) return nullptr;
  const std::string text = read_text_file(options.policy.rank_model, k_longest_rank_model_bytes);
  try {
    return parse_host_model(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", options.policy.rank_model.string(), error.what()));
  }
}

}  // namespace spjit
