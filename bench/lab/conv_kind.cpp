#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/convolution/conv_operands.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "bench/lab/kind.hpp"
#include "bench/lab/measure.hpp"
#include "bench/lab/ways.hpp"
#include "plan/convolution.hpp"

namespace spjit::bench {
namespace {

using side_by_side::PeerInfo;

/// "1x1": the product is plain; "1x1 strided", "3x3", "depthwise 3x3", "7x7".
std::string kernel_of(const Convolution& shape) {
  std::string name = fmt::format("{}x{}", shape.kernel_height, shape.kernel_width);
  if (shape.groups > 1 && shape.groups == shape.channels) return "depthwise " + name;
  if (shape.groups > 1) return "grouped " + name;
  const bool has_one_tap = shape.kernel_height * shape.kernel_width == 1;
  return has_one_tap && !is_pointwise(shape) ? name + " strided" : name;
}

ReadyWay prepare(ConvPeer& peer, ConvPeer& instead, ConvOperands& operands, int threads) {
  const auto problem = [&](std::size_t layer) {
    return operands.problem(layer, peer.layout(), threads);
  };
  ImageBuffers& images = operands.images(peer.layout());
  WayMaker maker;
  maker.name = peer.info().name;
  maker.prepare = [&](std::size_t layer) { return peer.prepare(problem(layer)); };
  maker.instead = [&](std::size_t layer) { return instead.prepare(problem(layer)); };
  maker.spoil = [&] { images.spoil(); };
  maker.check = [&](std::size_t layer) {
    return check_layer(operands.network(), layer, images, peer.info().rounding);
  };
  return prepare_way(maker, operands.network().layers.size(), threads);
}

ConvPeerSettings settings_of(const LabOptions& options, bool hot) {
  ConvPeerSettings settings = options.settings;
  settings.hot = hot;
  return settings;
}

/// All of a kind: those of choices that hold for cold runs are not those of hot ones.
std::vector<std::unique_ptr<ConvPeer>> peers_of(const LabOptions& options, bool hot) {
  std::vector<std::string> names = options.peers;
  names.insert(names.end(), options.families.begin(), options.families.end());
  return make_conv_peers(settings_of(options, hot), names);
}

}  // namespace

Case conv_case(const std::vector<ConvLayer>& layers, const LayerGroup& group, std::int64_t batch) {
  const ConvLayer& first = layers[group.layers.front()];
  const Convolution& shape = first.shape;
  Case one;
  one.layer = first.name;
  one.rows = first.weights.rows;
  one.cols = first.weights.cols;
  one.layers = std::ssize(group.layers);
  for (const std::size_t layer : group.layers) one.nnz += layers[layer].weights.nnz();
  one.sparsity =
      1 - static_cast<double>(one.nnz) / static_cast<double>(one.rows * one.cols * one.layers);
  one.n = batch;
  const auto pixels = static_cast<double>(shape.output_height() * shape.output_width() * batch);
  one.facts = {{"origin", first.origin},
               {"shape", spjit::to_json(shape)},
               {"shape_text", fmt::format("{} filters, {}", one.rows, to_string(shape))},
               {"kernel", kernel_of(shape)},
               // Of one layer and all images, zeros included.
               {"dense_gflop", 2e-9 * static_cast<double>(one.rows * one.cols) * pixels}};
  return one;
}

std::vector<Case> measure_convolutions(const std::vector<std::unique_ptr<ConvPeer>>& peers,
                                       ConvOperands& operands, const Conditions& conditions,
                                       const LabOptions& options) {
  const ConvPeerSettings settings = settings_of(options, conditions.hot);
  const auto nchw = make_spjit_conv_peer(settings, "", Layout::row_major);
  const auto nhwc = make_spjit_conv_peer(settings, "", Layout::tokens_major);
  std::vector<ReadyWay> ways;
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    ConvPeer& instead = peer->layout() == Layout::tokens_major ? *nhwc : *nchw;
    ways.push_back(prepare(*peer, instead, operands, conditions.threads));
  }
  const std::vector<ConvLayer>& layers = operands.network().layers;
  const std::vector<LayerGroup> groups = group_by(layers, [](const ConvLayer& layer) {
    return std::pair{layer.shape, layer.weights.rows};
  });
  std::vector<Case> cases;
  for (const LayerGroup& group : groups) {
    Case& one = cases.emplace_back(conv_case(layers, group, operands.batch()));
    one.threads = conditions.threads;
    one.hot = conditions.hot;
  }
  time_ways(ways, groups, options.timing, cases);
  return cases;
}

namespace {

class ConvWorkload final : public Workload {
 public:
  ConvWorkload(const LabOptions& options, const ConvNetwork& network)
      : options_(options), layers_(network.load()) {}

  std::vector<Case> measure(const Conditions& conditions) override {
    if (!operands_ || operands_->batch() != conditions.n) operands_.emplace(layers_, conditions.n);
    return measure_convolutions(peers_of(options_, conditions.hot), *operands_, conditions,
                                options_);
  }

 private:
  const LabOptions& options_;
  std::vector<ConvLayer> layers_;
  std::optional<ConvOperands> operands_;  // of the latest batch
};

class ConvKind final : public Kind {
 public:
  explicit ConvKind(LabOptions options) : options_(std::move(options)) {}

  std::vector<PeerInfo> libraries() override {
    return side_by_side::infos_of(peers_of(options_, false));
  }

  std::vector<WorkloadEntry> workloads() override {
    std::vector<ConvNetwork> networks = {{"generated", 80, generated_convolutions}};
    if (!options_.quick) {
      networks = list_conv_networks({options_.data, options_.networks, options_.sparsities});
    }
    std::vector<WorkloadEntry> entries;
    entries.reserve(networks.size());
    for (const ConvNetwork& network : networks) {
      entries.push_back({to_string(network), all_conditions(options_), [this, network] {
                           return std::make_unique<ConvWorkload>(options_, network);
                         }});
    }
    return entries;
  }

 private:
  LabOptions options_;
};

}  // namespace

std::unique_ptr<Kind> make_conv_kind(const LabOptions& options) {
  return std::make_unique<ConvKind>(options);
}

}  // namespace spjit::bench
