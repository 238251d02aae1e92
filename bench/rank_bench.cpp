/// @file
/// How well the prior, the rules and rank models order tiles of the host or of a GPU, against
/// samples of `spjit collect`.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "bench/rank/ranked_tiles.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using Groups = std::vector<RankedTiles>;

struct Options {
  std::vector<std::string> samples;
  std::vector<std::string> models;
  std::vector<std::string> train;
  std::vector<std::string> earlier;
  std::string objective = to_string(RankObjective::truncated);
};

Groups load(const std::vector<std::string>& files) {
  Groups groups;
  for (const std::string& file : files) {
    std::ranges::move(read_ranked_tiles(file), std::back_inserter(groups));
  }
  return groups;
}

void check_alike(const Groups& groups) {
  if (groups.empty()) throw InvalidArgument("no groups; expected files of samples");
  for (const RankedTiles& group : groups) {
    if (group.schema == groups.front().schema && group.kind == groups.front().kind) continue;
    throw InvalidArgument(group.name +
                          ": expected all samples of one family, with times of one kind");
  }
}

void print_row(const std::string& way, const RankQuality& quality, bool orders = true) {
  const auto spread = [](const Percentiles& of) {
    return fmt::format("{:.1f} | {:.1f} | {:.1f}", 100 * of.mean, 100 * of.p95, 100 * of.worst);
  };
  if (!orders) {
    fmt::print("| {} | | | | {} | | | | |\n", way, spread(quality.first));
    return;
  }
  fmt::print("| {} | {:.3f} | {:.3f} | {:.2f} | {} | {} | {:.0f} % |\n", way, quality.ndcg,
             quality.pairs, quality.tau, spread(quality.first), spread(quality.best_of_ten),
             100 * quality.within_percent);
  std::fflush(stdout);
}

ScoreTiles score_by(const RankModel& model) {
  return [&model](const RankedTiles& group) { return model.scores(group.features); };
}

/// Each network is judged by a model that saw `others` and the other networks.
void judge_trained(const Groups& groups, const Groups& others, RankObjective objective) {
  std::map<std::string, RankModel> models;
  for (const RankedTiles& group : groups) {
    if (models.contains(group.network)) continue;
    Groups seen = others;
    std::ranges::copy_if(groups, std::back_inserter(seen),
                         [&](const RankedTiles& other) { return other.network != group.network; });
    models.emplace(group.network, train(seen, objective));
  }
  print_row("trained without the network", evaluate(groups, [&](const RankedTiles& group) {
              return models.at(group.network).scores(group.features);
            }));
}

void report(const Options& options) {
  const Groups groups = load(options.samples);
  check_alike(groups);
  const FeatureSchema& schema = *groups.front().schema;
  const RankQuality prior = evaluate(groups, [](const RankedTiles& group) { return group.prior; });
  fmt::print(
      "{} groups of tiles, times are {}\n\n"
      "| way | NDCG@10 | pairs | tau | first [%]: mean | p95 | worst | best of 10 [%]: mean "
      "| p95 | worst | within 1 % |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      prior.groups, to_string(groups.front().kind));
  print_row("prior", prior);
  if (!groups.front().rules.empty()) {
    print_row("rules of instant mode",
              evaluate(groups, [](const RankedTiles& group) { return group.rules; }), false);
  }
  if (!options.earlier.empty()) {
    const Groups earlier = load(options.earlier);
    print_row("times of another day", evaluate(groups, score_by_earlier(earlier)));
  }
  for (const std::string& file : options.models) {
    const RankModel model = read_rank_model(read_text_file(file, k_longest_rank_model_bytes));
    check_schema(model, schema.name, schema.version, schema.names());
    print_row(file, evaluate(groups, score_by(model)));
  }
  if (options.train.empty()) return;
  judge_trained(groups, load(options.train),
                options.objective == to_string(RankObjective::truncated)
                    ? RankObjective::truncated
                    : RankObjective::relative_time);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("How well the prior and rank models order tiles of the host or of a GPU.");
  app.add_option("SAMPLES", options.samples, "Files of samples that 'spjit collect' made")
      ->required();
  app.add_option("--rank-model", options.models, "Models to judge");
  app.add_option("--train", options.train,
                 "Samples: also judges models of these and of the other networks in SAMPLES");
  app.add_option("--objective", options.objective, "What --train trains by")
      ->check(CLI::IsMember({"truncated", "relative-time"}));
  app.add_option("--earlier", options.earlier,
                 "Samples of the same tiles on another day: the most to reach");
  CLI11_PARSE(app, argc, argv);
  try {
    report(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank_bench: error: {}\n", error.what());
    return 1;
  }
}
