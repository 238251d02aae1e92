#include "bench/rank/rank_experiment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bench/rank_agreement.hpp"
#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/host/unrolled/training/host_training.hpp"
#include "matrix/random.hpp"
#include "matrix/sampling.hpp"

namespace spjit::bench {
namespace {

constexpr int k_random_orders = 10;
constexpr double k_found = 0.01;

std::vector<float> rows_of(const HostSampleGroup& group) {
  std::vector<float> rows;
  for (const HostSample& sample : group.samples) {
    const std::vector<float> row = host_feature_row(sample.candidate, group.work, group.limits);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

std::int64_t class_of_rows(const HostSampleGroup& group) {
  return std::llround(std::log2(static_cast<double>(std::max<std::int64_t>(group.work.rows, 1))));
}

/// Sums of many groups.
class Sums {
 public:
  void add(const HostSampleGroup& group, const std::vector<double>& scores) {
    const std::vector<double> times = times_of(group);
    ndcg_ += ndcg_at(10, scores, relevance_grades(times));
    pair_accuracy_ += ordered_pair_accuracy(scores, times);
    std::vector<double> speeds;
    std::vector<double> finite_scores;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!std::isfinite(times[i])) continue;
      speeds.push_back(-times[i]);
      finite_scores.push_back(scores[i]);
    }
    tau_ += kendall_tau(finite_scores, speeds);
    top5_.push_back(regret_of_top(5, scores, times));
    top10_.push_back(regret_of_top(10, scores, times));
    add_choice(group, regret_of_top(1, scores, times));
  }

  void add_choice(const HostSampleGroup& group, double regret) {
    top1_.push_back(regret);
    relative_speeds_.push_back(1 / (1 + regret));
    classes_.push_back(class_of_rows(group));
  }

  [[nodiscard]] RankQuality quality() const {
    RankQuality quality;
    quality.groups = top1_.size();
    if (top1_.empty()) return quality;
    quality.top1 = percentiles(top1_);
    quality.him = highest_impact_of_misclassification(relative_speeds_, classes_);
    if (top10_.empty()) return quality;
    const auto count = static_cast<double>(top10_.size());
    quality.ndcg = ndcg_ / count;
    quality.pair_accuracy = pair_accuracy_ / count;
    quality.tau = tau_ / count;
    quality.top5 = percentiles(top5_);
    quality.top10 = percentiles(top10_);
    quality.found = static_cast<double>(std::ranges::count_if(
                        top10_, [](double regret) { return regret <= k_found; })) /
                    count;
    return quality;
  }

 private:
  double ndcg_ = 0;
  double pair_accuracy_ = 0;
  double tau_ = 0;
  std::vector<double> top1_, top5_, top10_, relative_speeds_;
  std::vector<std::int64_t> classes_;
};

bool has_choice(const HostSampleGroup& group) {
  return std::ranges::count_if(group.samples,
                               [](const HostSample& sample) { return sample.us > 0; }) > 1;
}

/// The tile's place among the group's; none if it is not there.
std::optional<std::size_t> place_of(const HostTile& tile, const HostSampleGroup& group) {
  const auto found = std::ranges::find(
      group.samples, tile, [](const HostSample& sample) { return sample.candidate.tile; });
  if (found == group.samples.end()) return std::nullopt;
  return static_cast<std::size_t>(found - group.samples.begin());
}

}  // namespace

std::vector<double> times_of(const HostSampleGroup& group) {
  std::vector<double> times;
  times.reserve(group.samples.size());
  for (const HostSample& sample : group.samples) {
    times.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
  }
  return times;
}

std::string network_of(const HostSampleGroup& group) {
  if (!group.recipe.contains("file")) return "";
  const auto file = group.recipe["file"].get<std::string>();
  const std::size_t first = file.find('/');
  return file.substr(0, first == std::string::npos ? first : file.find('/', first + 1));
}

RankQuality evaluate(std::span<const HostSampleGroup> groups, const ScoreTiles& score) {
  Sums sums;
  for (const HostSampleGroup& group : groups) {
    if (has_choice(group)) sums.add(group, score(group));
  }
  return sums.quality();
}

RankQuality evaluate_named(std::span<const HostSampleGroup> groups, const NameTile& name) {
  Sums sums;
  for (const HostSampleGroup& group : groups) {
    if (!has_choice(group)) continue;
    const std::vector<double> times = times_of(group);
    sums.add_choice(group, times.at(name(group)) / *std::ranges::min_element(times) - 1);
  }
  return sums.quality();
}

RankQuality evaluate_random(std::span<const HostSampleGroup> groups) {
  Sums sums;
  RandomStream random(1);
  for (int order = 0; order < k_random_orders; ++order) {
    for (const HostSampleGroup& group : groups) {
      if (!has_choice(group)) continue;
      std::vector<double> scores(group.samples.size());
      std::ranges::generate(scores, [&] { return static_cast<double>(random.next() >> 11U); });
      sums.add(group, scores);
    }
  }
  RankQuality quality = sums.quality();
  quality.groups /= k_random_orders;
  return quality;
}

std::vector<double> score_by_loads(const HostSampleGroup& group) {
  std::vector<double> scores;
  scores.reserve(group.samples.size());
  for (const HostSample& sample : group.samples) {
    const TileCandidate& candidate = sample.candidate;
    const auto nnz = static_cast<double>(group.work.nnz);
    const auto nv = static_cast<double>(candidate.tile.nv);
    const double weights = candidate.tile.form == WeightForm::broadcast ? nnz * nv : nnz;
    const auto rows_of_b = static_cast<double>(candidate.grouping.nnc_sum) * nv;
    scores.push_back(-static_cast<double>(candidate.panels) * (weights + rows_of_b));
  }
  return scores;
}

std::vector<double> score_by_prior(const HostSampleGroup& group) {
  std::vector<double> scores;
  scores.reserve(group.samples.size());
  for (const HostSample& sample : group.samples) {
    scores.push_back(-estimate_host_us(sample.candidate, group.work, group.limits));
  }
  return scores;
}

std::vector<double> score_by_model(const HostSampleGroup& group, const RankModel& model) {
  return model.scores(rows_of(group));
}

std::vector<double> score_by_earlier(const HostSampleGroup& group,
                                     std::span<const HostSampleGroup> earlier) {
  std::vector<double> scores(group.samples.size(), -std::numeric_limits<double>::infinity());
  const auto same = std::ranges::find(earlier, group.name, &HostSampleGroup::name);
  if (same == earlier.end()) return scores;
  const std::vector<double> times = times_of(*same);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto place = place_of(group.samples[i].candidate.tile, *same);
    if (place) scores[i] = -times[*place];
  }
  return scores;
}

std::size_t name_by_rules(const HostSampleGroup& group) {
  const HostTile tile = host_tile_by_rules(contiguous(group.work), group.limits);
  // Measuring puts the rules' choice first, whatever they are at that time.
  return place_of(tile, group).value_or(0);
}

RankModel train(std::span<const HostSampleGroup> groups, const std::string& name,
                const std::function<void(TrainingOptions&)>& change) {
  TrainingOptions options = host_training_options(name);
  options.objective = RankObjective::truncated;
  if (change) change(options);
  return train_rank_model(host_training_groups(groups), options);
}

std::vector<double> importance_by_shuffling(std::span<const HostSampleGroup> groups,
                                            const RankModel& model) {
  const std::size_t width = model.features.size();
  std::vector<double> losses(width, 0);
  double count = 0;
  RandomStream random(1);
  for (const HostSampleGroup& group : groups) {
    if (!has_choice(group)) continue;
    const std::vector<float> rows = rows_of(group);
    const std::vector<int> grades = relevance_grades(times_of(group));
    const double whole = ndcg_at(10, model.scores(rows), grades);
    const auto tiles = static_cast<std::int64_t>(group.samples.size());
    for (std::size_t feature = 0; feature < width; ++feature) {
      const std::vector<std::uint32_t> order = shuffled(random, tiles);
      std::vector<float> changed = rows;
      for (std::size_t tile = 0; tile < order.size(); ++tile) {
        changed[tile * width + feature] = rows[order[tile] * width + feature];
      }
      losses[feature] += whole - ndcg_at(10, model.scores(changed), grades);
    }
    ++count;
  }
  for (double& loss : losses) loss /= std::max(count, 1.0);
  return losses;
}

nlohmann::json to_json(const RankQuality& quality) {
  const auto spread = [](const Percentiles& of) -> nlohmann::json {
    return {{"mean", of.mean}, {"p95", of.p95}, {"worst", of.worst}};
  };
  nlohmann::json json = {
      {"groups", quality.groups}, {"regret_of_top_1", spread(quality.top1)}, {"him", quality.him}};
  if (quality.ndcg > 0) {
    json["ndcg_at_10"] = quality.ndcg;
    json["pair_accuracy"] = quality.pair_accuracy;
    json["tau"] = quality.tau;
    json["regret_of_top_5"] = spread(quality.top5);
    json["regret_of_top_10"] = spread(quality.top10);
    json["best_of_ten_within_1_percent"] = quality.found;
  }
  return json;
}

}  // namespace spjit::bench
