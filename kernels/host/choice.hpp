#pragma once

/// @file
/// Which family is the fastest on the host, by rules.

#include <span>

#include "kernels/choice_rule.hpp"

namespace spjit {

/// The table in docs/design/host.md is made from it; bench/choice_bench holds it against times.
[[nodiscard]] std::span<const ChoiceRule> host_choice() noexcept;

/// Rows of A that have the same columns, on average. Throws what `cancel` throws.
[[nodiscard]] double rows_alike(const CsrMatrix& a, const Cancellation& cancel);

}  // namespace spjit
