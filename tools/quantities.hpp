#pragma once

/// @file
/// Times as they are written on a command line.

#include <chrono>
#include <string_view>

namespace spjit::cli {

/// "90s", "15m", "12h", "30d", "4w": seconds, minutes, hours, days, weeks. Throws InvalidArgument
/// for anything else, a number without a unit included, and over 36500d.
[[nodiscard]] std::chrono::seconds parse_duration(std::string_view text);

}  // namespace spjit::cli
