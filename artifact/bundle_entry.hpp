#pragma once

/// @file
/// A kernel's entry in the index of a bundle.

#include "runtime/bundle/bundle_index.hpp"
#include "spjit/bundle.hpp"

namespace spjit {

/// Throws Error for a record that does not say what it is of.
[[nodiscard]] BundleEntry bundle_entry_of(const BundleKernel& kernel, const BundleIndex& index);

}  // namespace spjit
