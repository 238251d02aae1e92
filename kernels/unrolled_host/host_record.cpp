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
  json result = {{"candidates", json::array()}, {"relaxed", json::array()}};
  for (const TileRule rule : space.relaxed) result["relaxed"].push_back(to_string(rule));
  for (const TileCandidate& candidate : space.candidates) {
    json entry = {{"tile", to_json(candidate.tile)},
                  {"registers", candidate.registers},
                  {"panels", candidate.panels},
                  {"code_bytes", candidate.code_bytes},
                  {"utilisation", candidate.utilisation},
                  {"column_padding", candidate.column_padding},
                  {"fmas_per_load", candidate.grouping.fmas_per_load}};
    if (candidate.dropped) {
      entry["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                          {"numbers", candidate.dropped->numbers}};
    }
    result["candidates"].push_back(std::move(entry));
  }
  return result;
}

}  // namespace spjit
