#include "bench/layer/measure.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

std::vector<NetworkLayer> one_of_each_shape(const std::vector<NetworkLayer>& layers) {
  std::vector<NetworkLayer> some;
  for (const auto& group : group_by_shape(layers)) some.push_back(layers[group.front()]);
  return some;
}

Compiler compiler_for(const CompileOptions& options) {
  CacheOptions no_cache;
  no_cache.enabled = false;
  return Compiler(options, no_cache);
}

CompileOptions options_of(const LoadedNetwork& network, const LayerConditions& conditions,
                          const Target& target) {
  CompileOptions options;
  options.target = target;
  options.policy.hot = conditions.hot;
  options.policy.network_nnz = nnz_of(network.layers);
  options.resources.threads = conditions.threads;
  return options;
}

WaySurroundings surroundings_of(const LoadedNetwork& network, const LayerConditions& conditions,
                                const CompileOptions& options) {
  return {std::make_shared<const BiasedLayers>(conditions.hot ? one_of_each_shape(network.layers)
                                                              : network.layers),
          compiler_for(options), std::make_shared<WorkerPool>(conditions.threads)};
}

/// The ways of a comparison, one after another.
class Preparation {
 public:
  Preparation(WaySurroundings surroundings, CompileOptions options, std::int64_t n)
      : surroundings_(std::move(surroundings)), options_(std::move(options)), n_(n) {}

  /// Empty if the way is ready and right; else why it is not.
  std::string add(const Way& way) {
    try {
      auto prepared = std::make_unique<PreparedWay>(way, surroundings_for(way), buffers_of(way));
      std::string reason = prepared->check();
      if (reason.empty()) reason = compare(*prepared);
      if (reason.empty()) ready_.push_back(std::move(prepared));
      return reason;
    } catch (const Error& error) {
      return error.what();
    }
  }

  [[nodiscard]] const std::vector<std::unique_ptr<PreparedWay>>& ready() const { return ready_; }
  [[nodiscard]] const std::vector<NetworkLayer>& layers() const {
    return surroundings_.network->layers;
  }

  /// No longer needed once all are checked.
  void forget_expected() { expected_.clear(); }

 private:
  [[nodiscard]] WaySurroundings surroundings_for(const Way& way) const {
    if (!way.target) return surroundings_;
    CompileOptions options = options_;
    options.target = *way.target;
    return {surroundings_.network, compiler_for(options), surroundings_.pool};
  }

  /// Ways of one shape of tokens share them.
  LayerBuffers& buffers_of(const Way& way) {
    const TokenShape shape{n_, way.layout, way.batch};
    for (const auto& buffers : buffers_) {
      if (buffers->shape() == shape) return *buffers;
    }
    return *buffers_.emplace_back(std::make_unique<LayerBuffers>(layers(), shape));
  }

  std::string compare(const PreparedWay& prepared) {
    const bool is_product = prepared.way().finishing == Finishing::none;
    const auto found = expected_.find(is_product);
    if (found != expected_.end()) {
      return compare_bits(layers(), prepared.buffers(), found->second);
    }
    expected_.emplace(is_product, prepared.buffers());
    return {};
  }

  WaySurroundings surroundings_;
  CompileOptions options_;
  std::int64_t n_;
  std::vector<std::unique_ptr<LayerBuffers>> buffers_;
  std::map<bool, LayerBuffers> expected_;  // by whether they are products
  std::vector<std::unique_ptr<PreparedWay>> ready_;
};

/// What the layers of a group took together, sample by sample.
std::vector<double> sums_of(const SequenceTiming& timing, const std::vector<std::size_t>& group) {
  std::vector<double> sums(timing.layers_us[group.front()].size(), 0.0);
  for (const std::size_t layer : group) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += timing.layers_us[layer][i];
  }
  return sums;
}

struct GroupTime {
  TimingResult time;
  std::optional<PairedRatio> paired = {};
};

/// [ways][groups]
std::vector<std::vector<GroupTime>> time_groups(const Preparation& preparation,
                                                const std::vector<std::vector<std::size_t>>& groups,
                                                bool hot, const SequenceOptions& options) {
  std::vector<Sequence> sequences;
  for (const auto& prepared : preparation.ready()) sequences.push_back(prepared->sequence());
  std::vector<std::vector<GroupTime>> times(sequences.size());
  if (hot) {  // a group is a layer
    const auto alone = time_alone(sequences, options);
    for (std::size_t way = 0; way < times.size(); ++way) {
      for (const TimingResult& time : alone[way]) times[way].push_back({time});
    }
    return times;
  }
  const std::vector<SequenceTiming> timings = time_in_sequence(sequences, options);
  for (std::size_t way = 0; way < times.size(); ++way) {
    for (const auto& group : groups) {
      const std::vector<double> sums = sums_of(timings[way], group);
      GroupTime& one = times[way].emplace_back(GroupTime{summarize_samples({}, sums)});
      if (way > 0) one.paired = paired_ratio(sums, sums_of(timings.front(), group));
    }
  }
  return times;
}

WayTiming way_timing(const PreparedWay& prepared, const std::vector<std::size_t>& group,
                     const GroupTime& time) {
  WayTiming timing{prepared.way().name, time.time};
  timing.paired = time.paired;
  for (const std::size_t layer : group) {
    const std::string& family = prepared.family(layer);
    if (std::ranges::count(timing.families, family) == 0) timing.families.push_back(family);
    if (const std::optional<double> us = prepared.prepare_us(layer)) {
      timing.prepare_us = timing.prepare_us.value_or(0) + *us;
    }
  }
  return timing;
}

}  // namespace

std::vector<std::vector<std::size_t>> group_by_shape(const std::vector<NetworkLayer>& layers) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> by_shape;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const CsrMatrix& a = layers[i].matrix;
    const auto [found, is_new] = by_shape.try_emplace({a.rows, a.cols}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

ComparisonResult measure_comparison(const LoadedNetwork& network, const Comparison& comparison,
                                    const LayerConditions& conditions,
                                    const LayerBenchSettings& settings) {
  ComparisonResult result;
  const CompileOptions options = options_of(network, conditions, settings.target);
  Preparation preparation(surroundings_of(network, conditions, options), options, conditions.n);
  for (const Way& way : comparison.ways) {
    const std::string reason = preparation.add(way);
    if (reason.empty()) continue;
    result.failures.push_back(
        {comparison.name, network.name, conditions.n, conditions.threads, way.name, reason});
    if (preparation.ready().empty()) return result;
  }
  preparation.forget_expected();
  const auto groups = group_by_shape(preparation.layers());
  const auto times = time_groups(preparation, groups, conditions.hot, settings.timing);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const CsrMatrix& a = preparation.layers()[groups[i].front()].matrix;
    LayerCase& one = result.cases.emplace_back(
        LayerCase{comparison.name, network.name, a.rows, a.cols, std::ssize(groups[i])});
    for (const std::size_t layer : groups[i]) one.nnz += preparation.layers()[layer].matrix.nnz();
    one.n = conditions.n;
    one.threads = conditions.threads;
    one.hot = conditions.hot;
    for (std::size_t way = 0; way < times.size(); ++way) {
      one.timings.push_back(way_timing(*preparation.ready()[way], groups[i], times[way][i]));
    }
  }
  return result;
}

}  // namespace spjit::bench
