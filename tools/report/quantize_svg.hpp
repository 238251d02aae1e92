#pragma once

/// @file
/// Errors of quantised weights as a picture.

#include <span>
#include <string>
#include <string_view>

#include "tools/quantize/quantize_model.hpp"

namespace spjit::cli {

/// An SVG document: a bar for each tensor that was tried, as long as its relative error.
[[nodiscard]] std::string quantize_svg(std::span<const QuantizedWeights> weights,
                                       std::string_view title);

}  // namespace spjit::cli
