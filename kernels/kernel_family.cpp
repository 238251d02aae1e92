#include "kernels/kernel_family.hpp"

#include <fmt/format.h>

#include "kernels/built_kernel.hpp"

namespace spjit {

Refusal beyond_default(const Numerics& numerics) {
  const Numerics none;
  const auto not_taken = [](const char* name, DataType type) {
    return Refusal(fmt::format("it does not take {} of {}", name, to_string(type)));
  };
  if (numerics.a != none.a) return not_taken("A", numerics.a);
  if (numerics.b != none.b) return not_taken("B", numerics.b);
  if (numerics.c != none.c) return not_taken("C", numerics.c);
  if (numerics.quantization != none.quantization) {
    return Refusal(
        fmt::format("it does not quantise B (quantize:{})", to_string(numerics.quantization)));
  }
  if (numerics.accumulate == none.accumulate) return Refusal::none();
  return Refusal(fmt::format("it does not keep the promise {}", to_string(numerics.accumulate)));
}

Refusal KernelFamily::numerics_refusal(const Numerics& numerics) const {
  return beyond_default(numerics);
}

Refusal why_not(const KernelFamily& family, const FamilyRequest& request) {
  const std::string& named = request.options.policy.family;
  if (!named.empty() && named != family.name()) return Refusal("the policy names " + named);
  if (Refusal refusal = family.numerics_refusal(request.problem.numerics)) return refusal;
  const ProblemFeatures unknown = features_of(request.problem).without(family.features());
  if (!unknown.empty()) return Refusal("it does not know " + to_string(unknown));
  return family.refusal(request);
}

BuiltKernel KernelFamily::explain(const BuildRequest& request) const { return build(request); }

}  // namespace spjit
