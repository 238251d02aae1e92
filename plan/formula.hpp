#pragma once

/// @file
/// The formula of a kernel, in words.

#include <string>

#include "spjit/epilogue.hpp"

namespace spjit {

/// "gelu(scale * (A * B) + bias + residual)", "clamp(A * B, 0, 6)".
[[nodiscard]] std::string formula_of(const Epilogue& epilogue);

}  // namespace spjit
