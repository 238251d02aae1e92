#pragma once

/// @file
/// Counts calls of operator new in the test programs that link the target test_allocation, on
/// all threads.

#include <cstdint>

namespace spjit::testing_support {

/// How often operator new was called since the program began.
[[nodiscard]] std::int64_t allocations_so_far() noexcept;

}  // namespace spjit::testing_support
