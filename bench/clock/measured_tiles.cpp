#include "bench/clock/measured_tiles.hpp"

#include <fmt/format.h>

#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "rankmodel/time_kind.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

MeasuredTile judged_tile(const CudaSample& sample, const CudaDeviceInfo& device,
                         const ModelTile& model) {
  MeasuredTile tile;
  tile.tile = spjit::to_string(sample.candidate.tile);
  tile.measured_us = sample.us;
  tile.prior = estimate_cuda_cycles(sample.candidate, device);
  try {
    const ModelledTime time = model(sample.candidate);
    tile.modelled_us = time.us;
    tile.bound = spjit::to_string(time.bound);
  } catch (const Error& error) {
    tile.failed = error.what();
  }
  return tile;
}

}  // namespace

MeasuredMatrix judge_measured(const CudaSampleGroup& group, const ModelTile& model) {
  if (group.times != TimeKind::measured) {
    throw Error(fmt::format("{}: times are \"{}\"; expected measured ones", group.name,
                            spjit::to_string(group.times)));
  }
  if (!group.recipe.contains("file")) {
    throw Error(fmt::format("{}: a matrix without a file; expected one below --data", group.name));
  }
  MeasuredMatrix result;
  result.matrix = group.recipe.at("file").get<std::string>();
  result.card = group.limits.product;
  result.n = group.work.n;
  std::vector<double> measured;
  std::vector<double> modelled;
  std::vector<double> prior;
  for (const CudaSample& sample : group.samples) {
    if (sample.us <= 0) continue;  // it did not run
    result.tiles.push_back(judged_tile(sample, group.limits, model));
    const MeasuredTile& tile = result.tiles.back();
    if (!tile.failed.empty()) continue;
    measured.push_back(tile.measured_us);
    modelled.push_back(tile.modelled_us);
    prior.push_back(tile.prior);
  }
  if (measured.size() < 2) {
    throw Error(fmt::format("{}: fewer than two tiles have both times", group.name));
  }
  result.clock = agreement(measured, modelled);
  result.prior = agreement(measured, prior);
  return result;
}

Agreement mean_agreement(std::span<const MeasuredMatrix> matrices, Agreement MeasuredMatrix::*of) {
  if (matrices.empty()) throw InvalidArgument("no matrices have no mean");
  Agreement mean;
  const double share = 1 / static_cast<double>(matrices.size());
  for (const MeasuredMatrix& matrix : matrices) {
    mean.tau += (matrix.*of).tau * share;
    mean.loss += (matrix.*of).loss * share;
  }
  return mean;
}

std::string to_string(const MeasuredMatrix& matrix) {
  return fmt::format(
      "{} n={}: {} tiles, measured ({}), tau {:.2f} (prior {:.2f}), loss {:.1f} % (prior {:.1f} %)",
      matrix.matrix, matrix.n, matrix.tiles.size(), matrix.card, matrix.clock.tau, matrix.prior.tau,
      100 * matrix.clock.loss, 100 * matrix.prior.loss);
}

nlohmann::json to_json(const MeasuredMatrix& matrix) {
  nlohmann::json tiles = nlohmann::json::array();
  for (const MeasuredTile& tile : matrix.tiles) {
    nlohmann::json entry = {{"tile", tile.tile}, {"measured_us", tile.measured_us}};
    if (tile.failed.empty()) {
      entry.update(
          {{"modelled_us", tile.modelled_us}, {"prior_cycles", tile.prior}, {"bound", tile.bound}});
    } else {
      entry["failed"] = tile.failed;
    }
    tiles.push_back(std::move(entry));
  }
  return {{"matrix", matrix.matrix},
          {"n", matrix.n},
          {"card", matrix.card},
          {"clock", to_json(matrix.clock)},
          {"prior", to_json(matrix.prior)},
          {"tiles", std::move(tiles)}};
}

}  // namespace spjit::bench
