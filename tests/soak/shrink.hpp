#pragma once

/// @file
/// Makes a failing case small.

#include <functional>

#include "tests/soak/soak_case.hpp"

namespace spjit::soak {

/// Whether a case still fails.
using Fails = std::function<bool(const SoakCase&)>;

/// A case that fails, as `item` does, and of which nothing more can be left out: rows, entries and
/// columns are removed, sizes halved and decreased, options set to their plainest. Asks `fails` at
/// most `most_tries` times.
[[nodiscard]] SoakCase shrink(const SoakCase& item, const Fails& fails, int most_tries = 2000);

}  // namespace spjit::soak
