#pragma once

/// @file
/// Which family is the fastest on a GPU, by rules.

#include <span>

#include "kernels/choice_rule.hpp"

namespace spjit {

/// The table in docs/design/cuda.md is made from it.
[[nodiscard]] std::span<const ChoiceRule> cuda_choice() noexcept;

}  // namespace spjit
