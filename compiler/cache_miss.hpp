#pragma once

/// @file
/// Why a kernel is in no cache: what there is instead, and in which fields of the key it differs.

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_family.hpp"
#include "runtime/cache/cache_layer.hpp"

namespace spjit {

/// A kernel that was looked for.
struct WantedKernel {
  nlohmann::json fields;  ///< cache_key_fields()
  std::string target;     ///< Target::name()
};

/// A field of the key with two values. Both are texts as KeyFields has them; "none" is a field that
/// only the other one has.
struct FieldDifference {
  std::string field;
  std::string there;
  std::string wanted;
};

/// Fields in which a listed kernel differs from the wanted one. What follows from another
/// difference is left out: of another target the device, of another n or layout the leading
/// dimension, of another size the pattern, of another pattern the values. Empty for a kernel of the
/// same key; nothing for one that does not say how it was made.
[[nodiscard]] std::optional<std::vector<FieldDifference>> differences(const WantedKernel& wanted,
                                                                      const ListedKernel& there);

struct NearKernel {
  ListedKernel kernel;
  std::vector<FieldDifference> differences;
};

/// The one of `there` that has most in common with the wanted one: first of all A, then the target,
/// then the number of other fields. Of equals the first.
[[nodiscard]] std::optional<NearKernel> nearest_kernel(const WantedKernel& wanted,
                                                       std::span<const ListedKernel> there);

/// "n (8 there, 16 wanted), search (instant there, ranked wanted)".
[[nodiscard]] std::string to_text(std::span<const FieldDifference> differences);

/// "layer 'fc1' of '/srv/model.spjit', key 3f9a...".
[[nodiscard]] std::string name_of(const ListedKernel& kernel);

/// A message for who may not compile: what was looked for, what the places have of this A, what the
/// nearest kernel differs in, and what to do.
[[nodiscard]] std::string missing_kernel_text(const FamilyRequest& request,
                                              const WantedKernel& wanted,
                                              std::span<const ListedKernel> there);

}  // namespace spjit
