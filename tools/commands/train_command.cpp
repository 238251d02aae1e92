// spjit train: makes rank models of measured tiles.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_bytes.hpp"
#include "base/gzip.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "rankmodel/rank_metrics.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/options/outputs.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/table.hpp"

#ifdef SPJIT_HAVE_XGBOOST
#include "artifact/tuned_families.hpp"
#include "kernels/host/choice_model.hpp"
#include "kernels/host/training/choice_samples.hpp"
#include "kernels/tuning/training/sample_training.hpp"
#endif

namespace spjit::cli {
namespace {

namespace fs = std::filesystem;

struct TrainCommandOptions {
  std::vector<std::string> samples;
  fs::path out;
  fs::path init;
  std::string name = "rank-model";
  std::string objective = "truncated";
  std::size_t few = 0;
  std::uint32_t seed = 1;
  int rounds = 0;
  int depth = 0;
  double learning_rate = 0;
  double validation = -1;
  bool families = false;
  bool json = false;
};

#ifdef SPJIT_HAVE_XGBOOST

/// What went into a model: file, groups, devices.
nlohmann::json describe_samples(const std::string& file, const std::vector<SampledTiles>& groups) {
  std::map<std::string, int> devices;
  for (const SampledTiles& group : groups) ++devices[group.device];
  return {{"file", fs::path(file).filename().string()},
          {"groups", groups.size()},
          {"devices", devices}};
}

void write_model(const RankModel& model, const fs::path& path) {
  const std::string text = write_rank_model(model);
  if (path.extension() == ".gz") {
    publish_file(path, gzip(text));
  } else {
    publish_file(path, std::as_bytes(std::span(text)));
  }
}

/// Of choice_bench's files: a model of the choice among host families.
ExitCode train_families(const TrainCommandOptions& options) {
  if (!options.init.empty() || options.few > 0) {
    throw InvalidArgument("--families was given with --init or --few; expected neither of them");
  }
  std::vector<TrainingGroup> groups;
  nlohmann::json sources = nlohmann::json::array();
  for (const std::string& file : options.samples) {
    const ChoiceSamples samples = read_choice_samples(file);
    const std::string name = fs::path(file).filename().string();
    std::vector<TrainingGroup> more = training_groups(samples, name + " ");
    sources.push_back({{"file", name}, {"groups", more.size()}, {"devices", {{samples.cpu, 1}}}});
    std::ranges::move(more, std::back_inserter(groups));
  }
  TrainingOptions training = training_options(options.name, choice_feature_schema());
  training.objective = RankObjective::relative_time;
  training.seed = options.seed;
  training.rounds = options.rounds > 0 ? options.rounds : 150;
  training.depth = options.depth > 0 ? options.depth : 6;
  training.learning_rate = options.learning_rate > 0 ? options.learning_rate : 0.1;
  training.min_child_weight = 2;
  training.subsample = 0.8;
  training.validation_share = std::max(options.validation, 0.0);
  RankModel model = train_rank_model(groups, training);
  model.provenance["samples"] = std::move(sources);
  model.provenance["times"] = std::string(to_string(TimeKind::measured));
  write_model(model, options.out);
  print(fmt::format("{}: {} trees of {} products\n", shown(options.out.string()),
                    model.trees.size(), groups.size()));
  return ExitCode::ok;
}

/// Groups of one family, with times of one kind.
struct Samples {
  std::vector<TrainingGroup> groups;
  const FeatureSchema* schema = nullptr;
  TimeKind times = TimeKind::none;
  nlohmann::json sources = nlohmann::json::array();  ///< a description a file
};

Samples read_samples(const TrainCommandOptions& options) {
  Samples samples;
  std::vector<SampleLine> lines;
  std::vector<SampledTiles> tiles;
  for (const std::string& file : options.samples) {
    std::vector<SampleLine> more = read_sample_file(file, read_sample_line);
    if (options.few > 0) more = draw_matrices(std::move(more), options.few, options.seed);
    std::vector<SampledTiles> of_file = read_tiles(more);
    samples.sources.push_back(describe_samples(file, of_file));
    std::ranges::move(more, std::back_inserter(lines));
    std::ranges::move(of_file, std::back_inserter(tiles));
  }
  samples.times = common_times(lines);
  const std::string family = common_family(lines);
  samples.groups = training_groups(std::move(tiles));
  if (samples.groups.empty()) throw Error("the samples hold no group of two tiles or more");
  samples.schema = &tuned_family(family).schema();
  return samples;
}

TrainingOptions training_options(const TrainCommandOptions& options, const FeatureSchema& schema) {
  TrainingOptions training = training_options(options.name, schema);
  if (options.objective == to_string(RankObjective::relative_time)) {
    set_relative_time(training);
  } else {
    training.objective =
        options.objective == "truncated" ? RankObjective::truncated : RankObjective::ndcg;
  }
  training.seed = options.seed;
  if (options.rounds > 0) training.rounds = options.rounds;
  if (options.depth > 0) training.depth = options.depth;
  if (options.learning_rate > 0) training.learning_rate = options.learning_rate;
  if (options.validation >= 0) training.validation_share = options.validation;
  return training;
}

/// On groups that were held out.
Json evaluate(const RankModel& model, const std::vector<TrainingGroup>& groups,
              const TrainingOptions& training) {
  std::vector<double> ndcg;
  std::vector<double> top1;
  std::vector<double> top10;
  for (const TrainingGroup& group : groups) {
    if (!is_validation_group(group.name, training)) continue;
    const std::vector<double> scores = model.scores(group.rows);
    ndcg.push_back(ndcg_at(10, scores, relevance_grades(group.times_us)));
    top1.push_back(regret_of_top(1, scores, group.times_us));
    top10.push_back(regret_of_top(10, scores, group.times_us));
  }
  if (ndcg.empty()) return nullptr;
  const auto spread = [](const std::vector<double>& values) -> Json {
    const Percentiles of = percentiles(values);
    return {{"mean", of.mean}, {"p95", of.p95}, {"worst", of.worst}};
  };
  return {{"groups", ndcg.size()},
          {"ndcg_at_10", percentiles(ndcg).mean},
          {"regret_of_top_1", spread(top1)},
          {"regret_of_top_10", spread(top10)}};
}

std::string summary(const Json& result) {
  std::string text =
      fmt::format("{}: {} trees of {} groups, {} times\n", shown(result["file"].get<std::string>()),
                  result["trees"].get<std::size_t>(), result["groups"].get<std::size_t>(),
                  result["times"].get<std::string>());
  if (result["held_out"].is_null()) return text + "no group was held out\n";
  const Json& held_out = result["held_out"];
  const auto percent = [&](const char* metric, const char* of) {
    return 100 * held_out[metric][of].get<double>();
  };
  return text +
         fmt::format(
             "held out: {} groups, NDCG@10 {:.3f}; regret of the first {:.2f} % (p95 {:.2f}, "
             "worst {:.2f}), of the best of ten {:.2f} % ({:.2f}, {:.2f})\n",
             held_out["groups"].get<std::size_t>(), held_out["ndcg_at_10"].get<double>(),
             percent("regret_of_top_1", "mean"), percent("regret_of_top_1", "p95"),
             percent("regret_of_top_1", "worst"), percent("regret_of_top_10", "mean"),
             percent("regret_of_top_10", "p95"), percent("regret_of_top_10", "worst"));
}

ExitCode train(const TrainCommandOptions& options) {
  require_apart("--out", options.out, {options.samples.begin(), options.samples.end()});
  if (options.families) return train_families(options);
  auto [groups, schema, times, sources] = read_samples(options);
  TrainingOptions training = training_options(options, *schema);
  RankModel init;
  if (!options.init.empty()) {
    init = read_rank_model(read_text_file(options.init, k_longest_rank_model_bytes));
    check_schema(init, training.schema, training.schema_version, training.features);
    if (label_of(init).empty() != (times == TimeKind::measured)) {
      throw Error(
          fmt::format("{}: its times are {}, those of the samples are {}: expected one kind",
                      options.init.string(),
                      to_string(label_of(init).empty() ? TimeKind::measured : TimeKind::modelled),
                      to_string(times)));
    }
    training.init = &init;
  }
  // What is said of held-out groups must be of a model that has not seen them.
  TrainingOptions judged = training;
  judged.refit = false;
  const Json held_out = evaluate(train_rank_model(groups, judged), groups, training);
  RankModel model = train_rank_model(groups, training);
  model.provenance["samples"] = std::move(sources);
  model.provenance["times"] = std::string(to_string(times));
  write_model(model, options.out);
  const Json result = {{"file", options.out.string()},
                       {"groups", groups.size()},
                       {"trees", model.trees.size()},
                       {"times", std::string(to_string(times))},
                       {"held_out", held_out}};
  if (options.json) {
    print_json(result);
  } else {
    print(summary(result));
  }
  return ExitCode::ok;
}

#else

ExitCode train(const TrainCommandOptions&) {
  throw NotSupported(
      "this spjit was built without XGBoost: install libxgboost-dev and build again");
}

#endif

void add_training_options(CLI::App& command, TrainCommandOptions& options) {
  command
      .add_option("--objective", options.objective,
                  "truncated (LambdaMART on all pairs, by NDCG@10), rank:ndcg (XGBoost's own, on "
                  "drawn pairs) or relative-time (regression of the logarithm of a time over the "
                  "least; best where samples are few).")
      ->check(CLI::IsMember({"truncated", "rank:ndcg", "relative-time"}))
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--rounds", options.rounds, "Trees at most.")
      ->transform(whole_number(1, 10'000))
      ->type_name("COUNT");
  command.add_option("--depth", options.depth, "Splits from root to leaf at most.")
      ->transform(whole_number(1, 12))
      ->type_name("COUNT");
  command.add_option("--learning-rate", options.learning_rate, "Weight of a tree.")
      ->transform(real_number(1e-4, 1))
      ->type_name("RATE");
  command
      .add_option(
          "--validation", options.validation,
          "Share of the groups held out to find the number of trees that ranks them best; then all "
          "groups are trained on. 0: none.")
      ->transform(real_number(0, 0.9))
      ->type_name("SHARE");
  command.add_option("--seed", options.seed, "Seed of all that is drawn.")
      ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace

Subcommand add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainCommandOptions>();
  CLI::App* command = app.add_subcommand("train");
  set_manual(*command, "train");
  command->add_option("SAMPLES", options->samples, "Files of samples, plain or gzip.")->required();
  command->add_option("--out", options->out, "The model; with .gz at its end compressed.")
      ->check(not_empty())
      ->required()
      ->type_name("FILE");
  command->add_option("--name", options->name, "Its name, for output.")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--init", options->init, "A model to go on from.")
      ->check(not_empty())
      ->type_name("FILE");
  command
      ->add_option("--few", options->few,
                   "Use only this many matrices of each file, drawn by the seed. 0: all.")
      ->transform(whole_number(0, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("COUNT")
      ->capture_default_str();
  command->add_flag("--families", options->families,
                    "The samples are files of choice_bench: train a choice among host families.");
  add_training_options(*command, *options);
  add_json(*command, options->json);
  return {command, [options] { return train(*options); }};
}

}  // namespace spjit::cli
