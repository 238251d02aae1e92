#pragma once

/// @file
/// Kernels in tables, by their records, which anybody may have written.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/report/table.hpp"

namespace spjit::cli {

/// A kernel's record as the columns and the cells of a row; a missing member is an empty cell.
[[nodiscard]] std::vector<Column> kernel_columns();
[[nodiscard]] std::vector<std::string> kernel_cells(const nlohmann::json& record);

/// "model.spjit: 12 kernels, 1.5 MB" and the end of the line: what a bundle or a cache has.
[[nodiscard]] std::string kernels_line(const std::filesystem::path& path, std::size_t kernels,
                                       std::int64_t bytes);

/// "512 B", "1.5 kB".
[[nodiscard]] std::string size_text(std::int64_t bytes);

}  // namespace spjit::cli
