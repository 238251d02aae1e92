#pragma once

/// @file
/// Rules of the choice among families. Each backend has one table of them, which the code and the
/// docs are made from.

#include <optional>
#include <string_view>

#include "base/refusal.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// A row of a table. The first row of a family that applies decides about it.
struct ChoiceRule {
  std::string_view family;
  std::string_view when;  ///< it leaves a problem that it accepts to others, for the docs
  /// Why another family is likely to be faster, or that none is, whatever later rows say. Nothing:
  /// the row does not apply.
  std::optional<Refusal> (*reason)(const FamilyRequest& request, const KernelFamily& family);
  /// In instant mode the family is not even taken where all that accept leave the problem to
  /// others.
  bool is_firm = false;
};

}  // namespace spjit
