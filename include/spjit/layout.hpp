#pragma once

/// @file
/// How a dense matrix lies in memory.

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// Order of B `[k x n]` or C `[m x n]` in memory, whose rows are features and whose columns are
/// tokens.
enum class Layout : std::uint8_t {
  row_major,     ///< features one after another, a leading dimension apart
  panel_major,   ///< panels of a kernel's panel width, see Kernel::run_panels()
  tokens_major,  ///< tokens one after another, as frameworks have activations: X `[n x k]`, Y
                 ///< `[n x m]`
};

/// "features", "panels", "tokens". Throws InvalidArgument that lists them.
[[nodiscard]] SPJIT_EXPORT Layout parse_layout(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(Layout layout);

}  // namespace spjit
