#pragma once

/// @file
/// The matrices that search_cost_bench takes.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bench/search_cost/cost_row.hpp"

namespace spjit::bench {

/// Layers of DLMC with 7k, 52k and 105k nonzeros, as paths below its folder without extension.
[[nodiscard]] std::vector<std::string> default_cost_matrices();

/// One for each matrix and n: `folder`/NAME.smtx. Where there is no such folder at all, uniform
/// matrices of the default ones' shapes and sparsities take their places, and are named so. Throws
/// as load_matrix() does, and InvalidArgument for a name without a file that is not a default one.
[[nodiscard]] std::vector<CostCase> load_cost_cases(const std::filesystem::path& folder,
                                                    std::span<const std::string> names,
                                                    std::span<const std::int64_t> ns);

/// A matrix so small that the emulated driver gets through every way.
[[nodiscard]] std::vector<CostCase> rehearsal_cost_cases();

}  // namespace spjit::bench
