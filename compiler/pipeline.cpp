#include "compiler/pipeline.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/families.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

[[noreturn]] void nobody_accepts(const FamilyRequest& request,
                                 const std::vector<FamilyVerdict>& verdicts) {
  std::string reasons;
  for (const FamilyVerdict& verdict : verdicts) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", verdict.family, verdict.reason);
  }
  throw NotSupported(fmt::format("no family of kernels for {} takes this problem: {}",
                                 request.options.target.name(), reasons));
}

/// `build` is KernelFamily::build or explain.
CompiledKernel first_to_build(const BuildRequest& request,
                              std::span<const KernelFamily* const> families,
                              BuiltKernel (KernelFamily::*build)(const BuildRequest&) const) {
  std::vector<FamilyVerdict> verdicts;
  for (const KernelFamily* family : families) {
    const bool same_device = family->is_cuda() == request.what.options.target.is_cuda();
    if (!same_device) continue;
    request.context.check();
    FamilyVerdict& verdict = verdicts.emplace_back(FamilyVerdict{std::string(family->name()), ""});
    verdict.reason = why_not(*family, request.what);
    if (!verdict.reason.empty()) continue;
    BuiltKernel built = (family->*build)(request);
    verdict.reason = built.declined.empty() ? built.reason : built.declined;
    if (!built.declined.empty()) continue;
    nlohmann::json record = make_record(request.what, built, verdicts);
    return {family, std::move(built.code), std::move(record)};
  }
  nobody_accepts(request.what, verdicts);
}

}  // namespace

CompiledKernel compile_problem(const BuildRequest& request,
                               std::span<const KernelFamily* const> families) {
  return first_to_build(request, families, &KernelFamily::build);
}

nlohmann::json explain_problem(const BuildRequest& request,
                               std::span<const KernelFamily* const> families) {
  return first_to_build(request, families, &KernelFamily::explain).record;
}

std::shared_ptr<const LoadedRankModel> rank_model_of(const CompileOptions& options) {
  if (options.policy.search == SearchMode::instant) return nullptr;
  for (const KernelFamily* family : kernel_families()) {
    if (family->is_cuda() != options.target.is_cuda()) continue;
    if (auto model = family->rank_model(options)) return model;
  }
  return nullptr;
}

}  // namespace spjit
