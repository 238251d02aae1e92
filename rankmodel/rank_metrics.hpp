#pragma once

/// @file
/// How well one ranking agrees with another.

#include <span>

namespace spjit {

/// Kendall's tau-a: (agreeing - disagreeing pairs) / pairs, in [-1, 1]; a pair that is tied in
/// either counts as neither. 0 for fewer than two. Throws InvalidArgument for different lengths.
[[nodiscard]] double kendall_tau(std::span<const double> left, std::span<const double> right);

}  // namespace spjit
