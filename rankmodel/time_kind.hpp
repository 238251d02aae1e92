#pragma once

/// @file
/// Where times come from: what they may be called.

#include <cstdint>
#include <string_view>

namespace spjit {

enum class TimeKind : std::uint8_t {
  none,      ///< there are none yet: tiles were compiled
  measured,  ///< on the device
  modelled,  ///< computed by a model of the device's clock
};

/// "none", "measured", "modelled"
[[nodiscard]] std::string_view to_string(TimeKind kind) noexcept;

/// Throws Error, listing the three, for any other name.
[[nodiscard]] TimeKind parse_time_kind(std::string_view name);

}  // namespace spjit
