#include <algorithm>
#include <map>
#include <utility>

#include "bench/lab/kind.hpp"
#include "bench/lab/measure.hpp"
#include "bench/lab/ways.hpp"
#include "bench/layer/way.hpp"
#include "bench/layer/way_layer.hpp"
#include "bench/model/network.hpp"

namespace spjit::bench {
namespace {

using side_by_side::PeerInfo;

std::vector<LayerGroup> shapes_of(const std::vector<NetworkLayer>& layers) {
  return group_by(layers, [](const NetworkLayer& layer) {
    return std::pair{layer.matrix.rows, layer.matrix.cols};
  });
}

std::vector<NetworkLayer> one_of_each_shape(const std::vector<NetworkLayer>& layers) {
  std::vector<NetworkLayer> some;
  for (const LayerGroup& group : shapes_of(layers)) some.push_back(layers[group.layers.front()]);
  return some;
}

Compiler compiler_for(const CompileOptions& options) {
  CacheOptions no_cache;
  no_cache.enabled = false;
  return Compiler(options, no_cache);
}

/// The ways of a comparison, one after another. What is right is compared bit by bit with the first
/// way that computes the same.
class Preparation {
 public:
  Preparation(std::vector<NetworkLayer> layers, const CompileOptions& options, std::int64_t n)
      : surroundings_{std::make_shared<const BiasedLayers>(std::move(layers)),
                      compiler_for(options),
                      std::make_shared<WorkerPool>(options.resources.threads)},
        options_(options),
        n_(n) {}

  [[nodiscard]] const std::vector<NetworkLayer>& layers() const {
    return surroundings_.network->layers;
  }

  ReadyWay prepare(const Way& way) {
    WaySurroundings surroundings = surroundings_;
    if (way.target) {
      CompileOptions options = options_;
      options.target = *way.target;
      surroundings.compiler = compiler_for(options);
    }
    LayerBuffers& buffers = buffers_of(way);
    std::vector<const WayLayer*> own;
    WayMaker maker;
    maker.name = way.name;
    maker.prepare = [&](std::size_t layer) {
      auto made = std::make_unique<WayLayer>(way, surroundings, buffers, layer);
      own.push_back(made.get());
      return made;
    };
    maker.spoil = [&] { buffers.spoil(); };
    maker.check = [&](std::size_t layer) {
      return check_way_layer(way, *surroundings.network, buffers, layer);
    };
    ReadyWay ready = prepare_way(maker, layers().size(), options_.resources.threads);
    if (!ready.failed.empty()) return ready;
    ready.failed = compare(way, buffers);
    for (std::size_t i = 0; i < own.size(); ++i) ready.layers[i].values_ms = own[i]->values_ms();
    return ready;
  }

  /// No longer needed once all are checked.
  void forget_expected() { expected_.clear(); }

 private:
  /// Ways of one shape of tokens share them.
  LayerBuffers& buffers_of(const Way& way) {
    const TokenShape shape{n_, way.layout, way.batch};
    for (const auto& buffers : buffers_) {
      if (buffers->shape() == shape) return *buffers;
    }
    return *buffers_.emplace_back(std::make_unique<LayerBuffers>(layers(), shape));
  }

  std::string compare(const Way& way, const LayerBuffers& buffers) {
    const bool is_product = way.finishing == Finishing::none;
    const auto found = expected_.find(is_product);
    if (found != expected_.end()) return compare_bits(layers(), buffers, found->second);
    expected_.emplace(is_product, buffers);
    return {};
  }

  WaySurroundings surroundings_;
  CompileOptions options_;
  std::int64_t n_;
  std::vector<std::unique_ptr<LayerBuffers>> buffers_;
  std::map<bool, LayerBuffers> expected_;  // by whether they are products
};

}  // namespace

std::vector<Case> measure_comparison(const std::vector<NetworkLayer>& layers,
                                     const std::vector<Way>& ways, const Conditions& conditions,
                                     const LabOptions& options) {
  CompileOptions compile;
  compile.target = options.settings.target;
  compile.policy.hot = conditions.hot;
  compile.policy.network_nnz = nnz_of(layers);
  compile.resources.threads = conditions.threads;
  Preparation preparation(conditions.hot ? one_of_each_shape(layers) : layers, compile,
                          conditions.n);
  std::vector<ReadyWay> ready;
  for (const Way& way : ways) {
    ready.push_back(preparation.prepare(way));
    if (!ready.front().failed.empty()) break;  // nothing to compare with
  }
  preparation.forget_expected();
  const std::vector<LayerGroup> groups = shapes_of(preparation.layers());
  std::vector<Case> cases;
  for (const LayerGroup& group : groups) {
    std::vector<NetworkLayer> some;
    some.reserve(group.layers.size());
    for (const std::size_t layer : group.layers) some.push_back(preparation.layers()[layer]);
    Case& one = cases.emplace_back();
    one.rows = some.front().matrix.rows;
    one.cols = some.front().matrix.cols;
    one.layers = std::ssize(some);
    one.nnz = nnz_of(some);
    one.sparsity = sparsity_of(some);
    one.threads = conditions.threads;
    one.hot = conditions.hot;
  }
  time_ways(ready, groups, options.timing, cases);
  return cases;
}

namespace {

class LayerNetwork final : public Workload {
 public:
  LayerNetwork(const LabOptions& options, const Network& network)
      : options_(options), layers_(network.load()) {
    normalize(layers_);
  }

  std::vector<Case> measure(const Conditions& conditions) override {
    const Comparison comparison = list_comparisons({conditions.comparison}).front();
    return measure_comparison(layers_, comparison.ways, conditions, options_);
  }

 private:
  const LabOptions& options_;
  std::vector<NetworkLayer> layers_;
};

class LayerKind final : public Kind {
 public:
  explicit LayerKind(LabOptions options) : options_(std::move(options)) {}

  std::vector<PeerInfo> libraries() override {
    return {side_by_side::make_spjit_peer(options_.settings)->info()};
  }

  std::vector<WorkloadEntry> workloads() override {
    std::vector<Conditions> conditions;
    for (const Comparison& comparison : list_comparisons(options_.comparisons)) {
      for (const int threads : options_.threads) {
        for (const std::int64_t n : comparison.n) {
          if (!options_.n.empty() && std::ranges::count(options_.n, n) == 0) continue;
          conditions.push_back({comparison.name, n, threads, false});
          if (options_.hot) conditions.push_back({comparison.name, n, threads, true});
        }
      }
    }
    std::vector<WorkloadEntry> entries;
    for (const Network& network : networks_of(options_)) {
      entries.push_back({network.name, conditions, [this, network] {
                           return std::make_unique<LayerNetwork>(options_, network);
                         }});
    }
    return entries;
  }

 private:
  LabOptions options_;
};

}  // namespace

std::vector<Network> networks_of(const LabOptions& options) {
  if (options.quick) return {{"generated", generated_layers}};
  return list_networks({options.data, options.networks});
}

std::unique_ptr<Kind> make_layer_kind(const LabOptions& options) {
  return std::make_unique<LayerKind>(options);
}

}  // namespace spjit::bench
