#include "rankmodel/training/training_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "rankmodel/rank_metrics.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void check_group(const TrainingGroup& group, std::size_t columns) {
  if (group.times_us.empty() || group.columns != columns ||
      group.rows.size() != group.times_us.size() * columns) {
    throw InvalidArgument(fmt::format(
        "training group '{}': {} numbers in {} columns for {} times; expected {} columns and a row "
        "for each time",
        group.name, group.rows.size(), group.columns, group.times_us.size(), columns));
  }
  if (std::ranges::any_of(group.rows, [](float x) { return std::isinf(x); })) {
    throw InvalidArgument(
        fmt::format("training group '{}': a feature is infinite; NaN is 'not known'", group.name));
  }
  if (!std::ranges::all_of(group.times_us, [](double time) { return time > 0; })) {
    throw InvalidArgument(fmt::format(
        "training group '{}': a time is not positive; infinity is 'does not run'", group.name));
  }
}

void check_options(const TrainingOptions& options) {
  const auto check = [](bool good, const char* what) {
    if (!good) throw InvalidArgument(fmt::format("training option {}", what));
  };
  const auto is_share = [](double value) { return value > 0 && value <= 1; };
  check(options.rounds >= 1 && static_cast<std::size_t>(options.rounds) <= k_most_rank_trees,
        "rounds: expected 1 to 10000");
  check(options.depth >= 1 && options.depth <= 12, "depth: expected 1 to 12");
  check(is_share(options.learning_rate), "learning_rate: expected more than 0, up to 1");
  check(options.min_child_weight >= 0, "min_child_weight: expected at least 0");
  check(options.l2 >= 0, "l2: expected at least 0");
  check(is_share(options.subsample), "subsample: expected more than 0, up to 1");
  check(is_share(options.colsample), "colsample: expected more than 0, up to 1");
  check(is_share(options.slower_weight), "slower_weight: expected more than 0, up to 1");
  check(options.top_grade >= 1 && options.top_grade <= k_top_grade, "top_grade: expected 1 to 30");
  check(options.validation_share >= 0 && options.validation_share < 1,
        "validation_share: expected at least 0, less than 1");
  check(options.patience >= 1, "patience: expected at least 1");
}

// FNV-1a, then mixed, as the names of groups may differ in their last letter only.
std::uint64_t hash_of(const std::string& name, std::uint32_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccdU;
  hash = (hash ^ (hash >> 33U)) * 0xc4ceb9fe1a85ec53U;
  return hash ^ (hash >> 33U);
}

}  // namespace

bool is_validation_group(const std::string& name, const TrainingOptions& options) {
  if (!options.validation_groups.empty()) {
    return std::ranges::find(options.validation_groups, name) != options.validation_groups.end();
  }
  const double part = static_cast<double>(hash_of(name, options.seed)) /
                      static_cast<double>(std::numeric_limits<std::uint64_t>::max());
  return part < options.validation_share;
}

void check_training(std::span<const TrainingGroup> groups, const TrainingOptions& options) {
  check_options(options);
  if (options.init != nullptr) {
    check_rank_model(*options.init);
    check_schema(*options.init, options.schema, options.schema_version, options.features);
  }
  std::set<std::string> names;
  for (const TrainingGroup& group : groups) {
    check_group(group, options.features.size());
    if (!names.insert(group.name).second) {
      throw InvalidArgument(fmt::format("training group '{}' is there twice", group.name));
    }
  }
  for (const std::string& name : options.validation_groups) {
    if (!names.contains(name)) {
      throw InvalidArgument(fmt::format("there is no validation group '{}'", name));
    }
  }
  if (std::ranges::all_of(
          names, [&](const std::string& name) { return is_validation_group(name, options); })) {
    throw InvalidArgument(
        fmt::format("of {} groups none is left to train on; hold out fewer", groups.size()));
  }
}

namespace {

/// RankObjective::relative_time.
void add_log_times(std::span<const double> times_us, double slower_weight, TrainingData& data) {
  const double best = *std::ranges::min_element(times_us);
  for (const double time : times_us) {
    const double slower =
        std::isfinite(time) ? std::min(std::log2(time / best), k_slowest_log2) : k_slowest_log2;
    data.labels.push_back(static_cast<float>(-slower));
    if (slower_weight < 1)
      data.weights.push_back(static_cast<float>(std::pow(slower_weight, slower)));
  }
}

}  // namespace

TrainingData training_data(std::span<const TrainingGroup> groups, const TrainingOptions& options,
                           bool validation) {
  TrainingData data{.columns = options.features.size()};
  for (const TrainingGroup& group : groups) {
    if (is_validation_group(group.name, options) != validation) continue;
    const std::vector<int> grades = relevance_grades(group.times_us, options.top_grade);
    data.rows.insert(data.rows.end(), group.rows.begin(), group.rows.end());
    data.grades.insert(data.grades.end(), grades.begin(), grades.end());
    data.group_sizes.push_back(grades.size());
    if (options.objective == RankObjective::relative_time) {
      add_log_times(group.times_us, options.slower_weight, data);
    } else {
      data.labels.insert(data.labels.end(), grades.begin(), grades.end());
    }
    if (options.init == nullptr) continue;
    for (const double score : options.init->scores(group.rows)) {
      data.margin.push_back(static_cast<float>(score));
    }
  }
  return data;
}

double mean_ndcg(const TrainingData& data, std::span<const float> scores) {
  double sum = 0;
  std::size_t first = 0;
  for (const std::size_t size : data.group_sizes) {
    const std::vector<double> of_group(scores.begin() + static_cast<std::ptrdiff_t>(first),
                                       scores.begin() + static_cast<std::ptrdiff_t>(first + size));
    sum += ndcg_at(k_ndcg_places, of_group, std::span(data.grades).subspan(first, size));
    first += size;
  }
  return sum / static_cast<double>(data.group_sizes.size());
}

}  // namespace spjit
