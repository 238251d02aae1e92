#include "kernels/unrolled_host/host_record.hpp"

#include <nlohmann/json.hpp>

namespace spjit {

using nlohmann::json;

json to_json(const HostTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"nv", tile.nv},
          {"k_block", tile.k_block},
          {"panel_group", tile.panel_group},
          {"row_group", tile.row_group},
          {"pack_b", tile.pack_b},
          {"memory_rows", tile.memory_rows},
          {"stream_c", tile.stream_c}};
}

json to_json(const TileSpace& space) {
  return space_json(space, [](const TileCandidate& candidate) -> json {
    return {{"tile", to_json(candidate.tile)},
            {"registers", candidate.registers},
            {"panels", candidate.panels},
            {"code_bytes", candidate.code_bytes},
            {"utilisation", candidate.utilisation},
            {"column_padding", candidate.column_padding},
            {"fmas_per_load", candidate.grouping.fmas_per_load}};
  });
}

}  // namespace spjit
