/// @file
/// The report on rank models: trains them on the samples of rankmodel/data, and says how well they
/// rank real matrices that they were not trained on. Its head says how to read it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/json_file.hpp"
#include "bench/rank/rank_experiment.hpp"
#include "bench/rank/rank_plot.hpp"
#include "bench/rank/tile_tree.hpp"
#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/training/host_training.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;
using Groups = std::vector<HostSampleGroup>;

struct Options {
  fs::path data = SPJIT_SOURCE_DIR "/rankmodel/data";
  fs::path out = SPJIT_SOURCE_DIR "/docs/results/rank-report";
};

/// Samples of one target: made-up matrices, and real ones.
struct Target {
  std::string name;
  Groups synthetic;
  Groups real;
};

Target load(const Options& options, const std::string& name) {
  return {name, read_sample_file(options.data / (name + "-synthetic.jsonl.gz"), read_host_samples),
          read_sample_file(options.data / (name + "-real.jsonl.gz"), read_host_samples)};
}

/// What is written.
class Report {
 public:
  explicit Report(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }

  void add(const std::string& text) {
    text_ += text;
    fmt::print("{}", text);
    std::fflush(stdout);
  }
  void add_plot(const std::string& name, const std::string& svg) {
    write(name, svg);
    text_ += fmt::format("\n![{0}]({0})\n\n", name);
  }
  void keep(const std::string& key, nlohmann::json value) { json_[key] = std::move(value); }
  void finish() {
    write("README.md", text_);
    save_json(folder_ / "figures.json", json_);
  }

 private:
  void write(const std::string& name, const std::string& content) const {
    std::ofstream file(folder_ / name);
    file << content;
    if (!file.flush()) throw IoError((folder_ / name).string() + ": cannot be written");
  }

  fs::path folder_;
  std::string text_;
  nlohmann::json json_;
};

std::string table_header() {
  return "| way | NDCG@10 | pairs | first: mean | p95 | worst | best of 10: mean | p95 | worst "
         "| 1 % | HIM |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|\n";
}

std::string table_row(const std::string& way, const RankQuality& quality) {
  const auto spread = [](const Percentiles& of) {
    return fmt::format("{:.1f} | {:.1f} | {:.1f}", 100 * of.mean, 100 * of.p95, 100 * of.worst);
  };
  if (quality.ndcg == 0) {
    return fmt::format("| {} | | | {} | | | | | {:.2f} |\n", way, spread(quality.top1),
                       quality.him);
  }
  return fmt::format("| {} | {:.3f} | {:.3f} | {} | {} | {:.0f} % | {:.2f} |\n", way, quality.ndcg,
                     quality.pair_accuracy, spread(quality.top1), spread(quality.top10),
                     100 * quality.found, quality.him);
}

Groups join(const Groups& left, const Groups& right) {
  Groups all = left;
  all.insert(all.end(), right.begin(), right.end());
  return all;
}

/// A model for each network, trained without its matrices.
std::map<std::string, RankModel> train_without_each(const Target& target) {
  std::set<std::string> networks;
  for (const HostSampleGroup& group : target.real) networks.insert(network_of(group));
  std::map<std::string, RankModel> models;
  for (const std::string& network : networks) {
    Groups others;
    std::ranges::copy_if(target.real, std::back_inserter(others),
                         [&](const auto& group) { return network_of(group) != network; });
    models.emplace(network, train(join(target.synthetic, others), "without " + network));
  }
  return models;
}

std::vector<HostTile> tiles_of(const HostSampleGroup& group) {
  std::vector<HostTile> tiles;
  tiles.reserve(group.samples.size());
  for (const HostSample& sample : group.samples) tiles.push_back(sample.candidate.tile);
  return tiles;
}

/// The depth and leaf that are best on a fifth of the samples, then all of them.
TileTree plant_tree(const Groups& groups) {
  Groups kept;
  Groups held_out;
  TrainingOptions split;
  for (const HostSampleGroup& group : groups) {
    (is_validation_group(group.name, split) ? held_out : kept).push_back(group);
  }
  TileTreeOptions best;
  double least = -1;
  for (const int depth : {1, 2, 4, 6, 8, 12}) {
    for (const std::size_t leaf : {2U, 4U, 8U, 16U, 32U}) {
      const TileTree tree(kept, {depth, leaf});
      const RankQuality quality = evaluate_named(held_out, [&](const HostSampleGroup& group) {
        return tree.choose(group.work, tiles_of(group)).value();
      });
      if (least >= 0 && quality.top1.mean >= least) continue;
      least = quality.top1.mean;
      best = {depth, leaf};
    }
  }
  return {groups, best};
}

std::vector<double> top_regrets(const Groups& groups, std::size_t k, const ScoreTiles& score) {
  std::vector<double> regrets;
  for (const HostSampleGroup& group : groups) {
    const std::vector<double> times = times_of(group);
    if (times.size() > 1) regrets.push_back(100 * regret_of_top(k, score(group), times));
  }
  return regrets;
}

/// Mean microseconds to name a tile.
double tree_us(const TileTree& tree, const Groups& groups) {
  std::vector<std::vector<HostTile>> tiles;
  tiles.reserve(groups.size());
  for (const HostSampleGroup& group : groups) tiles.push_back(tiles_of(group));
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    static_cast<void>(tree.choose(groups[i].work, tiles[i]));
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(std::max<std::size_t>(groups.size(), 1));
}

/// `earlier`: the real matrices, measured on another day; may be empty.
void report_quality(Report& report, const Target& target, const Groups& earlier,
                    const RankModel& synthetic) {
  const std::map<std::string, RankModel> without = train_without_each(target);
  const TileTree tree = plant_tree(target.synthetic);
  const ScoreTiles by_synthetic = [&](const HostSampleGroup& group) {
    return score_by_model(group, synthetic);
  };
  const ScoreTiles by_without = [&](const HostSampleGroup& group) {
    return score_by_model(group, without.at(network_of(group)));
  };
  const ScoreTiles by_earlier = [&](const HostSampleGroup& group) {
    return score_by_earlier(group, earlier);
  };
  std::vector<std::pair<std::string, RankQuality>> ways = {
      {"random order", evaluate_random(target.real)},
      {"fewest loads", evaluate(target.real, score_by_loads)},
      {"prior", evaluate(target.real, score_by_prior)},
      {"rules of instant mode", evaluate_named(target.real, name_by_rules)},
      {fmt::format("decision tree, {} leaves", tree.leaves()),
       evaluate_named(target.real,
                      [&](const HostSampleGroup& group) {
                        return tree.choose(group.work, tiles_of(group)).value();
                      })},
      {"LambdaMART, synthetic only", evaluate(target.real, by_synthetic)},
      {"LambdaMART, and other networks", evaluate(target.real, by_without)}};
  if (!earlier.empty()) {
    ways.insert(ways.begin(), {"times of another day", evaluate(target.real, by_earlier)});
  }
  report.add(fmt::format("\n## {}: {} groups of real matrices, {} synthetic ones\n\n{}",
                         target.name, ways.front().second.groups, target.synthetic.size(),
                         table_header()));
  nlohmann::json json;
  for (const auto& [way, quality] : ways) {
    report.add(table_row(way, quality));
    json[way] = to_json(quality);
  }
  report.add(fmt::format("\nThe tree names a tile in {:.1f} us.\n", tree_us(tree, target.real)));
  report.keep(target.name, std::move(json));
  PlotAxes axes{
      "Regret of the best of ten, " + target.name, "regret in %", "share of groups", false, 0, 1};
  report.add_plot(
      "regret-" + target.name + ".svg",
      line_plot(axes, {distribution("prior", top_regrets(target.real, 10, score_by_prior)),
                       distribution("fewest loads", top_regrets(target.real, 10, score_by_loads)),
                       distribution("LambdaMART", top_regrets(target.real, 10, by_without))}));
}

void report_learning_curve(Report& report, const Target& target) {
  PlotSeries ndcg{"NDCG@10", {}};
  PlotSeries first{"first within 5 %", {}};
  PlotSeries found{"best of 10 within 1 %", {}};
  report.add("\n## Learning curve, " + target.name +
             "\n\n| synthetic groups | NDCG@10 | first: mean regret | best of 10: mean regret | "
             "within 1 % |\n|---|---|---|---|---|\n");
  for (std::size_t count = 25; count < 2 * target.synthetic.size(); count *= 2) {
    const Groups some(target.synthetic.begin(),
                      target.synthetic.begin() +
                          static_cast<std::ptrdiff_t>(std::min(count, target.synthetic.size())));
    const RankModel model = train(some, fmt::format("{} groups", some.size()));
    const ScoreTiles score = [&](const auto& group) { return score_by_model(group, model); };
    const RankQuality quality = evaluate(target.real, score);
    const std::vector<double> firsts = top_regrets(target.real, 1, score);
    const auto x = static_cast<double>(some.size());
    ndcg.points.emplace_back(x, quality.ndcg);
    found.points.emplace_back(x, quality.found);
    first.points.emplace_back(
        x, static_cast<double>(std::ranges::count_if(firsts, [](double r) { return r <= 5; })) /
               static_cast<double>(firsts.size()));
    report.add(fmt::format("| {} | {:.3f} | {:.2f} % | {:.2f} % | {:.0f} % |\n", some.size(),
                           quality.ndcg, 100 * quality.top1.mean, 100 * quality.top10.mean,
                           100 * quality.found));
  }
  report.add_plot("learning-curve.svg",
                  line_plot({"Learning curve on real matrices, " + target.name, "synthetic groups",
                             "", true, 0, 1},
                            {ndcg, first, found}));
}

void report_importance(Report& report, const Target& target, const RankModel& model) {
  const std::vector<double> losses = importance_by_shuffling(target.real, model);
  std::vector<std::pair<std::string, double>> bars;
  bars.reserve(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) bars.emplace_back(model.features[i], losses[i]);
  std::ranges::stable_sort(bars, [](const auto& a, const auto& b) { return a.second > b.second; });
  report.add(
      "\n## What the order owes to each feature\n\n"
      "Loss of NDCG@10 on real matrices when the feature is shuffled among the tiles of a group.\n"
      "Features that all tiles of a group share lose nothing by that, and matter through the "
      "others.\n");
  nlohmann::json json;
  for (const auto& [name, loss] : bars) json[name] = loss;
  report.keep("importance", std::move(json));
  bars.resize(std::min<std::size_t>(bars.size(), 24));
  report.add_plot("importance.svg", bar_plot("Loss of NDCG@10 without the feature", bars));
}

/// From one target to another (DASH): no transfer, zero-shot, few-shot, all of its samples.
void report_transfer(Report& report, const Target& source, const RankModel& model,
                     const Target& target, std::size_t few) {
  const auto quality_of = [&](const RankModel& of) {
    return evaluate(target.real, [&](const auto& group) { return score_by_model(group, of); });
  };
  const Groups drawn = draw_matrices(target.synthetic, few, 1);
  // All of the few are trained on, for fewer rounds: nothing is left to stop by.
  const auto short_training = [](TrainingOptions& options) {
    options.validation_share = 0;
    options.rounds = 40;
  };
  const auto go_on = [&](TrainingOptions& options) {
    options.validation_share = 0;
    options.rounds = 20;
    options.learning_rate = 0.05;
    options.init = &model;
  };
  report.add(fmt::format("\n## From {} to {}\n\n{}", source.name, target.name, table_header()));
  nlohmann::json json;
  const std::vector<std::pair<std::string, RankQuality>> ways = {
      {"prior", evaluate(target.real, score_by_prior)},
      {fmt::format("no transfer: {} matrices of the target", few),
       quality_of(train(drawn, "few", short_training))},
      {"zero-shot: the source's model", quality_of(model)},
      {fmt::format("few-shot: the source's model and {} matrices", few),
       quality_of(train(drawn, "few-shot", go_on))},
      {"all samples of the target", quality_of(train(target.synthetic, "all"))}};
  for (const auto& [way, quality] : ways) {
    report.add(table_row(way, quality));
    json[way] = to_json(quality);
  }
  report.keep("transfer to " + target.name, std::move(json));
}

void report_speed(Report& report, const Target& target, const RankModel& model) {
  std::vector<float> rows;
  const std::size_t width = model.features.size();
  for (const HostSampleGroup& group : target.real) {
    for (const HostSample& sample : group.samples) {
      const std::vector<float> row = host_feature_row(sample.candidate, group.work, group.limits);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    if (rows.size() >= 1000 * width) break;
  }
  rows.resize(1000 * width);
  std::vector<double> times;
  for (int i = 0; i < 51; ++i) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(model.scores(rows));
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  std::ranges::sort(times);
  report.add(fmt::format("\nScoring 1000 tiles with {} trees takes {:.2f} ms (median of {}).\n",
                         model.trees.size(), times[times.size() / 2], times.size()));
  report.keep("score_1000_tiles_ms", times[times.size() / 2]);
}

/// The head of the page, with what its columns are.
std::string introduction(const std::string& device) {
  return fmt::format(
      "# How well rank models rank\n\n"
      "Made by `rank_bench` of spjit {} (`scripts/data/rank_report.sh`) from the samples of\n"
      "[`rankmodel/data`](../../../rankmodel/data/README.md), measured on {}.\n"
      "`figures.json` has more.\n\n"
      "- *NDCG@10* and *pairs*, the share in the right order, are means over groups.\n"
      "- *first* and *best of 10* are regret in %: how much longer the first tile takes, or the\n"
      "  best of the first ten, than the fastest of all.\n"
      "- *1 %* is the share of groups where the best of 10 takes at most 1 % longer.\n"
      "- *HIM* is the least relative speed of the first in each class of matrices by rows,\n"
      "  averaged (STuning-DL, IEEE Access 2024).\n"
      "- *times of another day* ranks by an earlier measurement: the most to reach.\n",
      SPJIT_VERSION, device);
}

int run(const Options& options) {
  const Target avx512 = load(options, "avx512-t1");
  const Target avx2 = load(options, "avx2-t1");
  const Target two_threads = load(options, "avx512-t2");
  Report report(options.out);
  report.add(introduction(avx512.real.front().limits.name));
  const RankModel model = train(avx512.synthetic, "synthetic");
  const auto earlier = [&](const char* name) {
    const fs::path file = options.data / "earlier" / fmt::format("{}-real.jsonl.gz", name);
    return fs::exists(file) ? read_sample_file(file, read_host_samples) : Groups{};
  };
  report_quality(report, avx512, earlier("avx512-t1"), model);
  report_quality(report, avx2, earlier("avx2-t1"), train(avx2.synthetic, "synthetic"));
  report_learning_curve(report, avx512);
  report_importance(report, avx512, model);
  report_transfer(report, avx512, model, avx2, 5);
  report_transfer(report, avx512, model, two_threads, 5);
  report_speed(report, avx512, model);
  report.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains rank models and reports how well they rank real matrices."};
  app.add_option("--data", options.data, "Folder with the samples")->capture_default_str();
  app.add_option("--out", options.out, "Folder that the report is written to")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank_bench: {}\n", error.what());
    return 2;
  }
}
