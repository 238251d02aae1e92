#include "compiler/pipeline.hpp"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

CompiledKernel compile_problem(const BuildRequest& request,
                               std::span<const KernelFamily* const> families) {
  std::vector<FamilyVerdict> verdicts;
  for (const KernelFamily* family : families) {
    const bool same_device = family->is_cuda() == request.what.options.target.is_cuda();
    if (!same_device) continue;
    request.context.check();
    FamilyVerdict& verdict = verdicts.emplace_back(FamilyVerdict{std::string(family->name()), ""});
    verdict.reason = why_not(*family, request.what);
    if (!verdict.reason.empty()) continue;
    BuiltKernel built = family->build(request);
    verdict.reason = built.declined.empty() ? built.reason : built.declined;
    if (!built.declined.empty()) continue;
    nlohmann::json record = make_record(request.what, built, verdicts);
    return {family, std::move(built.files), std::move(record)};
  }
  nobody_accepts(request.what, verdicts);
}

}  // namespace spjit
