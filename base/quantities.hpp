#pragma once

/// @file
/// Sizes and times as people write them.

#include <chrono>
#include <cstdint>
#include <string_view>

namespace spjit {

/// "500000", "512K", "100M", "4G", "1T": bytes, or with a letter (either case) powers of 1024.
/// Throws InvalidArgument that begins with `what` (the option or variable) for anything else.
[[nodiscard]] std::int64_t parse_byte_size(std::string_view text, std::string_view what);

/// "90s", "15m", "12h", "30d", "4w": seconds, minutes, hours, days, weeks. Throws InvalidArgument
/// for anything else, a number without a unit included, and over 36500d.
[[nodiscard]] std::chrono::seconds parse_duration(std::string_view text);

}  // namespace spjit
