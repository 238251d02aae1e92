#include "bench/rank/ranked_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "artifact/tuned_families.hpp"
#include "bench/rank_agreement.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "kernels/tuning/training/sample_training.hpp"
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

bool has_choice(const RankedTiles& group) {
  return std::ranges::count_if(group.times_us, [](double us) { return std::isfinite(us); }) > 1;
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

RankedTiles ranked_tiles(SampledTiles tiles, const SampleLine& line) {
  if (line.times == TimeKind::none) throw Error(line.name + ": tiles without times");
  return {std::move(tiles), network_of(line.recipe), &tuned_family(line.family).schema(),
          line.times};
}

std::vector<RankedTiles> read_ranked_tiles(const std::filesystem::path& file) {
  const std::vector<SampleLine> lines = read_sample_file(file, read_sample_line);
  std::vector<SampledTiles> tiles = read_tiles(lines);
  std::vector<RankedTiles> groups;
  groups.reserve(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    groups.push_back(ranked_tiles(std::move(tiles[i]), lines[i]));
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
      scores[i] = -same->times_us[static_cast<std::size_t>(found - same->tiles.begin())];
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
    sums.ndcg += ndcg_at(10, scores, relevance_grades(group.times_us));
    sums.pairs += ordered_pair_accuracy(scores, group.times_us);
    sums.tau += tau_of(scores, group.times_us);
    first.push_back(regret_of_top(1, scores, group.times_us));
    best_of_ten.push_back(regret_of_top(10, scores, group.times_us));
  }
  if (first.empty()) throw InvalidArgument("no group has two timed tiles; expected one at least");
  const auto count = static_cast<double>(first.size());
  const auto near = static_cast<double>(
      std::ranges::count_if(best_of_ten, [](double regret) { return regret <= k_near; }));
  return {first.size(),       sums.ndcg / count,        sums.pairs / count, sums.tau / count,
          percentiles(first), percentiles(best_of_ten), near / count};
}

RankModel train(std::span<const RankedTiles> groups, RankObjective objective) {
  const FeatureSchema& schema = *groups.front().schema;
  TrainingOptions options = training_options("judged", schema);
  options.objective = objective;
  if (objective == RankObjective::relative_time) set_relative_time(options);
  return train_rank_model(training_groups({groups.begin(), groups.end()}), options);
}

}  // namespace spjit::bench
