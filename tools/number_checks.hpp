#pragma once

/// @file
/// Options that are numbers: what the parser takes for one beyond plain decimal text (0x10, 010,
/// nan) is refused, and so is what is out of range.

#include <CLI/CLI.hpp>
#include <cstdint>

namespace spjit::cli {

/// For CLI::Option::transform(): the text has to be a whole decimal number in this range.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// The same for seeds: 0 to 2^64 - 1.
[[nodiscard]] CLI::Validator seed_number();

/// The same for decimal numbers such as 250, 0.5 and 1e3.
[[nodiscard]] CLI::Validator real_number(double least, double most);

}  // namespace spjit::cli
