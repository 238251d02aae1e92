#include <algorithm>
#include <optional>
#include <utility>

#include "bench/lab/kind.hpp"
#include "bench/lab/measure.hpp"
#include "bench/lab/ways.hpp"
#include "bench/model/layer_operands.hpp"
#include "bench/model/network.hpp"

namespace spjit::bench {

using side_by_side::Peer;
using Peers = std::vector<std::unique_ptr<Peer>>;

Case measure_model(const Peers& peers, LayerOperands& operands, const Conditions& conditions,
                   const SequenceOptions& timing) {
  std::vector<ReadyWay> ways;
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    WayMaker maker;
    maker.name = peer->info().name;
    maker.prepare = [&](std::size_t layer) {
      return peer->prepare(operands.problem(layer, conditions.threads));
    };
    maker.spoil = [&] { operands.spoil(); };
    maker.check = [&](std::size_t layer) { return operands.check(layer, peer->info().rounding); };
    ways.push_back(prepare_way(maker, operands.layers().size(), conditions.threads));
  }
  LayerGroup all{{}, true};
  for (std::size_t i = 0; i < operands.layers().size(); ++i) all.layers.push_back(i);
  Case one;
  one.layers = std::ssize(operands.layers());
  one.nnz = nnz_of(operands.layers());
  one.sparsity = sparsity_of(operands.layers());
  one.threads = conditions.threads;
  one.hot = conditions.hot;
  std::vector<Case> cases = {std::move(one)};
  time_ways(ways, {all}, timing, cases);
  return std::move(cases.front());
}

namespace {

class ModelNetwork final : public Workload {
 public:
  ModelNetwork(const LabOptions& options, const Network& network, const Peers& peers)
      : options_(options), layers_(network.load()), peers_(peers) {
    normalize(layers_);
  }

  [[nodiscard]] nlohmann::json describe() const override {
    nlohmann::json shapes = nlohmann::json::array();
    for (const NetworkLayer& layer : layers_) {
      shapes.push_back({layer.matrix.rows, layer.matrix.cols, layer.matrix.nnz()});
    }
    return {{"shapes", std::move(shapes)}};
  }

  std::vector<Case> measure(const Conditions& conditions) override {
    if (!operands_ || operands_->n() != conditions.n) {
      const bool with_zeros = std::ranges::any_of(peers_, [](const auto& peer) {
        return peer->info().kind == "dense" && peer->info().missing.empty();
      });
      operands_.emplace(layers_, conditions.n, with_zeros);
    }
    return {measure_model(peers_, *operands_, conditions, options_.timing)};
  }

 private:
  const LabOptions& options_;
  std::vector<NetworkLayer> layers_;
  const Peers& peers_;
  std::optional<LayerOperands> operands_;  // of the latest n
};

class ModelKind final : public Kind {
 public:
  explicit ModelKind(const LabOptions& options)
      : options_(options), peers_(side_by_side::make_peers(options.settings, options.peers)) {
    for (const std::string& family : options_.families) {
      peers_.push_back(side_by_side::make_family_peer(options_.settings, family));
    }
  }

  std::vector<side_by_side::PeerInfo> libraries() override {
    return side_by_side::infos_of(peers_);
  }

  std::vector<WorkloadEntry> workloads() override {
    std::vector<WorkloadEntry> entries;
    for (const Network& network : networks_of(options_)) {
      entries.push_back({network.name, all_conditions(options_), [this, network] {
                           return std::make_unique<ModelNetwork>(options_, network, peers_);
                         }});
    }
    return entries;
  }

 private:
  LabOptions options_;
  Peers peers_;
};

}  // namespace

std::unique_ptr<Kind> make_model_kind(const LabOptions& options) {
  return std::make_unique<ModelKind>(options);
}

}  // namespace spjit::bench
