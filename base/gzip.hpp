#pragma once

/// @file
/// Text kept small: gzip streams in memory (RFC 1952), which `zcat` reads too.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

/// Compresses at zlib's fastest level. Throws Error if zlib fails, and what `cancel` throws, which
/// is asked every 256 KiB that come out.
[[nodiscard]] std::vector<std::byte> gzip(std::string_view text, const Cancellation& cancel = {});

/// The text of one gzip stream. Throws Error for bytes that are none or that are damaged, and once
/// the text is longer than `limit_bytes`.
[[nodiscard]] std::string gunzip(std::span<const std::byte> bytes, std::int64_t limit_bytes);

/// The first `most_bytes` of the text of one or several streams, one behind another, as
/// `cat a.gz b.gz` makes them; all if it has no more. What follows is not looked at. Throws Error
/// for bytes up to there that are no gzip or that are damaged.
[[nodiscard]] std::string gunzip_head(std::span<const std::byte> bytes, std::int64_t most_bytes);

}  // namespace spjit
