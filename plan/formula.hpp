#pragma once

/// @file
/// What a kernel computes, in words.

#include <string>

#include "spjit/epilogue.hpp"

namespace spjit {

/// "gelu(scale * (A * B) + bias + residual)", "clamp(A * B, 0, 6)".
[[nodiscard]] std::string formula_of(const Epilogue& epilogue);

}  // namespace spjit
