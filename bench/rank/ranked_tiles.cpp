#include "bench/rank/ranked_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/rank_agreement.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "kernels/tuning/sample_training.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr double k_near = 0.01;
constexpr double k_infinite = std::numeric_limits<double>::infinity();

std::string network_of(const nlohmann::json& recipe) {
  if (!recipe.contains("file")) return "";
  const auto file = recipe["file"].get<std::string>();
  const std::size_t first = file.find('/');
  return file.substr(0, first == std::string::npos ? first : file.find('/', first + 1));
}

/// All but what only one family knows.
template <class Group>
RankedTiles timed_tiles(const Group& group, const FeatureSchema& schema) {
  if (group.times == TimeKind::none) throw Error(group.name + ": tiles without times");
  RankedTiles tiles{group.name, network_of(group.recipe), &schema, group.times};
  for (const auto& sample : group.samples) {
    tiles.tiles.push_back(to_string(sample.candidate.tile));
    tiles.times.push_back(sample.us > 0 ? sample.us : k_infinite);
  }
  return tiles;
}

bool has_choice(const RankedTiles& group) {
  return std::ranges::count_if(group.times, [](double us) { return std::isfinite(us); }) > 1;
}

/// Of the tiles that ran.
double tau_of(const std::vector<double>& scores, const std::vector<double>& times) {
  std::vector<double> left;
  std::vector<double> right;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!std::isfinite(times[i])) continue;
    left.push_back(scores[i]);
    right.push_back(-times[i]);
  }
  return kendall_tau(left, right);
}

}  // namespace

RankedTiles ranked_tiles(const HostSampleGroup& group) {
  RankedTiles tiles = timed_tiles(group, host_feature_schema());
  const HostTile by_rules = host_tile_by_rules(contiguous(group.work), group.limits);
  for (const HostSample& sample : group.samples) {
    const std::vector<float> row = host_feature_row(sample.candidate, group.work, group.limits);
    tiles.features.insert(tiles.features.end(), row.begin(), row.end());
    tiles.prior.push_back(-estimate_host_us(sample.candidate, group.work, group.limits));
    tiles.rules.push_back(sample.candidate.tile == by_rules ? 1 : 0);
  }
  return tiles;
}

RankedTiles ranked_tiles(const CudaSampleGroup& group) {
  RankedTiles tiles = timed_tiles(group, cuda_feature_schema());
  std::vector<CudaCandidate> candidates;
  for (const CudaSample& sample : group.samples) {
    candidates.push_back(sample.candidate);
    tiles.prior.push_back(-estimate_cuda_cycles(sample.candidate, group.limits));
  }
  tiles.features = cuda_feature_rows(candidates, group.limits);
  return tiles;
}

std::vector<RankedTiles> read_ranked_tiles(const std::filesystem::path& file) {
  const std::vector<SampleLine> lines = read_sample_file(file, read_sample_line);
  const bool cuda = common_family(lines) == k_cuda_samples;
  std::vector<RankedTiles> groups;
  groups.reserve(lines.size());
  for (const SampleLine& line : lines) {
    groups.push_back(cuda ? ranked_tiles(cuda_samples_of(line))
                          : ranked_tiles(host_samples_of(line)));
  }
  return groups;
}

ScoreTiles score_by_earlier(std::span<const RankedTiles> earlier) {
  return [earlier](const RankedTiles& group) {
    std::vector<double> scores(group.tiles.size(), -k_infinite);
    const auto same = std::ranges::find(earlier, group.name, &RankedTiles::name);
    if (same == earlier.end()) return scores;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto found = std::ranges::find(same->tiles, group.tiles[i]);
      if (found == same->tiles.end()) continue;
      scores[i] = -same->times[static_cast<std::size_t>(found - same->tiles.begin())];
    }
    return scores;
  };
}

RankQuality evaluate(std::span<const RankedTiles> groups, const ScoreTiles& score) {
  RankQuality sums;
  std::vector<double> first;
  std::vector<double> best_of_ten;
  for (const RankedTiles& group : groups) {
    if (!has_choice(group)) continue;
    const std::vector<double> scores = score(group);
    sums.ndcg += ndcg_at(10, scores, relevance_grades(group.times));
    sums.pairs += ordered_pair_accuracy(scores, group.times);
    sums.tau += tau_of(scores, group.times);
    first.push_back(regret_of_top(1, scores, group.times));
    best_of_ten.push_back(regret_of_top(10, scores, group.times));
  }
  if (first.empty()) throw InvalidArgument("no group has two timed tiles; expected one at least");
  const auto count = static_cast<double>(first.size());
  const auto near = static_cast<double>(
      std::ranges::count_if(best_of_ten, [](double regret) { return regret <= k_near; }));
  return {first.size(),       sums.ndcg / count,        sums.pairs / count, sums.tau / count,
          percentiles(first), percentiles(best_of_ten), near / count};
}

RankModel train(std::span<const RankedTiles> groups) {
  const FeatureSchema& schema = *groups.front().schema;
  TrainingOptions options = training_options("judged", schema);
  options.objective = RankObjective::truncated;
  std::vector<TrainingGroup> training;
  for (const RankedTiles& group : groups) {
    if (!has_choice(group)) continue;
    training.push_back({group.name, group.features, schema.features.size(), group.times});
  }
  return train_rank_model(training, options);
}

}  // namespace spjit::bench
