#pragma once

/// @file
/// One product of a batch.

#include <cstdint>

#include "spjit/arguments.hpp"

namespace spjit {

/// The arguments of product `item` of a batch, and those that follow it. Types are of whole bytes.
[[nodiscard]] Arguments item_of(Arguments arguments, std::int64_t item);

}  // namespace spjit
