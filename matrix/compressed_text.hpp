#pragma once

/// @file
/// Texts of matrices that gzip compressed. A small file may unpack to a thousand times its size:
/// no more is unpacked than the matrix of its first lines can take.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "matrix/text_lines.hpp"

namespace spjit {

/// How many numbers a text has, by its first lines.
using CountNumbers = std::function<std::int64_t(TextLines& head)>;

/// Bytes of a number with what is around it, on the average of a text; far more than a line of
/// "%25.16e" takes.
inline constexpr std::int64_t k_most_number_bytes = 64;
/// In which the lines that `CountNumbers` reads have to end, and what comments among numbers may
/// take.
inline constexpr std::int64_t k_most_head_bytes = std::int64_t{1} << 20;

/// The text of a file. Throws IoError: also for a text longer than its numbers can be, or than the
/// machine's memory.
[[nodiscard]] std::string read_compressed_text(const std::filesystem::path& path,
                                               const CountNumbers& count_numbers);

}  // namespace spjit
