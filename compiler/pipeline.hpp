#pragma once

/// @file
/// From a problem to an artifact: the families in their order, the first that accepts, does not
/// leave it to others and can build; or the fastest of them.

#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "compiler/compile_record.hpp"
#include "kernels/backend.hpp"

namespace spjit {

/// A compiled kernel that is not loaded yet.
struct CompiledKernel {
  const KernelFamily* family = nullptr;
  std::shared_ptr<const BuiltCode> code;
  nlohmann::json record;
};

/// Asks `families`, which are of the target's backend, one after another. Where the policy times
/// and names none, several that accept build, and `race` says whose kernel is the fastest; none:
/// the first is taken. The record is limited_record(). Throws NotSupported with all verdicts if
/// none accepts and builds; what building, `race` and the context throw.
[[nodiscard]] CompiledKernel compile_problem(const BuildRequest& request,
                                             std::span<const KernelFamily* const> families,
                                             const RaceKernels& race = {});

/// The record of what compile_problem() would build, without what only building tells; see
/// KernelFamily::explain(). Throws as compile_problem().
[[nodiscard]] nlohmann::json explain_problem(const BuildRequest& request,
                                             std::span<const KernelFamily* const> families,
                                             const RaceKernels& race = {});

/// Share of the policy's budget that a family's own search may take: the rest is for the race of
/// families, where there may be one. [ms]
[[nodiscard]] double search_budget_ms(const FamilyRequest& request);

/// A race on the device that times within what is left of the policy's budget, which begins now.
/// The race refers to what it was made of.
[[nodiscard]] RaceKernels race_within_budget(const FamilyRequest& request,
                                             const CompileContext& context,
                                             const std::shared_ptr<ThreadPool>& pool);

/// The model that ranks candidates. Null: instant mode looks at none, or a formula ranks.
[[nodiscard]] std::shared_ptr<const LoadedRankModel> rank_model_of(const CompileOptions& options);

}  // namespace spjit
