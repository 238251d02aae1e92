#pragma once

/// @file
/// Sizes as people write them.

#include <cstdint>
#include <string_view>

namespace spjit {

/// "500000", "512K", "100M", "4G", "1T": bytes, or with a letter (either case) powers of 1024.
/// Throws InvalidArgument that begins with `what` (the option or variable) for anything else.
[[nodiscard]] std::int64_t parse_byte_size(std::string_view text, std::string_view what);

}  // namespace spjit
