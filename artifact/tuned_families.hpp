#pragma once

/// @file
/// All families whose tiles are timed to train rank models. No part of libspjit.

#include <span>
#include <string_view>
#include <vector>

#include "kernels/tuning/training/tuned_family.hpp"

namespace spjit {

[[nodiscard]] std::span<const TunedFamily* const> tuned_families();

/// The one of that name, SampleLine::family. Throws Error that lists the names.
[[nodiscard]] const TunedFamily& tuned_family(std::string_view name);

/// Reads lines of one family, or none. Throws as common_family(), tuned_family() and
/// TunedFamily::read().
[[nodiscard]] std::vector<SampledTiles> read_tiles(std::span<const SampleLine> lines);

}  // namespace spjit
