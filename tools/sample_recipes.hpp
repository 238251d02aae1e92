#pragma once

/// @file
/// Which synthetic matrices tiles are timed on, to train rank models.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "spjit/generate.hpp"

namespace spjit::cli {

/// A matrix to make, and for how many columns of B.
struct SampleRecipe {
  GenerateOptions generate;
  std::int64_t n = 1;
};

/// The i-th of a sequence that depends on the seed alone. Rows and columns are 2^6 to 2^11, n 1 to
/// 2^11 (LO-SpMM, Table 3), half of each a usual size and half any; three matrices in sixteen have
/// one dimension outside of that: 1 to 64 rows, up to 2^15 rows, or up to 2^14 columns. Density is
/// 2 to 60 %, evenly by its logarithm; patterns are mostly `magnitude`, which is what pruned layers
/// look like. n is halved until there are at most 1.2e8 products (3e7 with such a dimension), so
/// that a run takes milliseconds.
[[nodiscard]] SampleRecipe draw_recipe(std::uint64_t seed, std::int64_t i);

/// "magnitude 512x384 90.0 % s17 n128": unique in a sequence.
[[nodiscard]] std::string name_of(const SampleRecipe& recipe);

[[nodiscard]] nlohmann::json to_json(const SampleRecipe& recipe);

}  // namespace spjit::cli
