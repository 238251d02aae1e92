#pragma once

/// @file
/// Which synthetic matrices tiles are timed on, to train rank models.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "spjit/generate.hpp"

namespace spjit {

/// A matrix to make, and for how many columns of B.
struct SampleRecipe {
  GenerateOptions generate;
  std::int64_t n = 1;
};

/// The i-th of a sequence that depends on the seed alone. Rows and columns are 2^6 to 2^11, n 1 to
/// 2^11 (LO-SpMM, Table 3), half of each a usual size and half any; three matrices in sixteen have
/// one dimension outside of that: 1 to 64 rows, up to 2^15 rows, or up to 2^14 columns. Density is
/// 1 to 60 %, evenly by its logarithm, less where there would be more than 5e5 nonzeros; patterns
/// are mostly `magnitude`, which is what pruned layers look like. n is halved until there are at
/// most 6e7 products (2e7 with such a dimension). So a run takes a millisecond or two at most.
[[nodiscard]] SampleRecipe draw_recipe(std::uint64_t seed, std::int64_t i);

/// A recipe for GPUs: rows and columns as above, 4 to 1024 nonzeros a row, evenly by their
/// logarithm, as LO-SpMM's Table 3 has it, but at most 60 % and 1e5 in all: whole kernels of many
/// tiles are compiled. n is 128 to 50176, half of it tokens or the pixels of a layer of ResNet-50;
/// the table has 2^10 to 2^11.
[[nodiscard]] SampleRecipe draw_cuda_recipe(std::uint64_t seed, std::int64_t i);

/// "magnitude 512x384 90.0 % s17 n128": unique in a sequence.
[[nodiscard]] std::string name_of(const SampleRecipe& recipe);

[[nodiscard]] nlohmann::json to_json(const SampleRecipe& recipe);

}  // namespace spjit
