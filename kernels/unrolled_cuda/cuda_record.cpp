#include "kernels/unrolled_cuda/cuda_record.hpp"

#include <utility>

namespace spjit {

using nlohmann::json;

json to_json(const CudaTile& tile) {
  return {{"name", to_string(tile)},
          {"m1", tile.m1},
          {"n1", tile.n1},
          {"unit_nonzeros", tile.unit_nonzeros},
          {"runtime_sizes", tile.runtime_sizes}};
}

json to_json(const CudaCandidate& candidate) {
  json entry = {{"tile", to_json(candidate.tile)},
                {"registers", candidate.registers.total()},
                {"min_blocks", candidate.min_blocks},
                {"active_blocks", candidate.occupancy.active_blocks},
                {"active_warps", candidate.occupancy.active_warps},
                {"row_tiles", candidate.row_tiles},
                {"column_tiles", candidate.column_tiles},
                {"blocks", candidate.blocks},
                {"waves", candidate.waves},
                {"column_padding", candidate.column_padding},
                {"tile_nnz_cv", candidate.grouping.tile_nnz_cv},
                {"code_bytes", candidate.code_bytes}};
  if (candidate.dropped) {
    entry["dropped"] = {{"rule", to_string(candidate.dropped->rule)},
                        {"numbers", candidate.dropped->numbers}};
  } else {
    entry["score"] = candidate.score;
  }
  return entry;
}

json to_json(const CudaTileSpace& space) {
  json result = {{"candidates", json::array()}, {"relaxed", json::array()}};
  for (const CudaRule rule : space.relaxed) result["relaxed"].push_back(to_string(rule));
  for (const CudaCandidate& candidate : space.candidates) {
    result["candidates"].push_back(to_json(candidate));
  }
  return result;
}

}  // namespace spjit
