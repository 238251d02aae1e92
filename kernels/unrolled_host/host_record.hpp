#pragma once

/// @file
/// The host's tiles as JSON.

#include <nlohmann/json_fwd.hpp>

#include "kernels/unrolled_host/host_tile.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"

namespace spjit {

/// docs/cache-format.md lists the members.
[[nodiscard]] nlohmann::json to_json(const HostTile& tile);
[[nodiscard]] nlohmann::json to_json(const TileSpace& space);

}  // namespace spjit
