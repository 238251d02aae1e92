#include "compiler/cuda_record.hpp"

namespace spjit {

nlohmann::json to_json(const CudaTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"n1", tile.n1},
          {"prefetch_distance", tile.prefetch_distance},
          {"unit_nonzeros", tile.unit_nonzeros},
          {"runtime_sizes", tile.runtime_sizes}};
}

nlohmann::json to_json(const CudaCandidate& candidate) {
  nlohmann::json json = {{"tile", to_string(candidate.tile)},
                         {"m1", candidate.tile.m1},
                         {"n1", candidate.tile.n1},
                         {"min_blocks", candidate.min_blocks},
                         {"predicted_registers", candidate.registers.total()},
                         {"active_blocks", candidate.occupancy.active_blocks},
                         {"blocks_x", candidate.blocks_x},
                         {"column_tiles", candidate.column_tiles},
                         {"column_padding", candidate.column_padding},
                         {"code_bytes", candidate.code_bytes},
                         {"tile_nnz_cv", candidate.grouping.tile_nnz_cv},
                         {"fmas_per_load", candidate.grouping.fmas_per_load},
                         {"dropped", nullptr}};
  if (candidate.dropped) {
    json["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                       {"numbers", candidate.dropped->numbers}};
  }
  return json;
}

nlohmann::json to_json(const CudaTileSpace& space) {
  nlohmann::json json = {{"candidates", nlohmann::json::array()},
                         {"relaxed", nlohmann::json::array()}};
  for (const CudaRule rule : space.relaxed) json["relaxed"].push_back(to_string(rule));
  for (const CudaCandidate& candidate : space.candidates) {
    json["candidates"].push_back(to_json(candidate));
  }
  return json;
}

}  // namespace spjit
