#include "bench/convolution/measure.hpp"

#include <algorithm>
#include <utility>

#include "bench/side_by_side/waiting.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using side_by_side::Runnable;

/// A layer as a library has it.
struct PreparedLayer {
  std::unique_ptr<Runnable> runnable;
  std::string detail;
  std::string failed;  ///< why it is spjit's, or wrong; empty: it is the library's
};

struct PreparedNetwork {
  std::string library;
  std::vector<PreparedLayer> layers;

  [[nodiscard]] bool any_timed() const {
    return std::ranges::any_of(layers, [](const PreparedLayer& one) { return one.failed.empty(); });
  }
  /// The layers share the library's threads.
  void end_turn() const {
    for (const PreparedLayer& layer : layers) {
      if (!layer.failed.empty()) continue;
      side_by_side::end_turn(*layer.runnable);
      return;
    }
  }
};

PreparedLayer prepare_layer(ConvPeer& peer, ConvPeer& instead, const ConvProblem& problem) {
  PreparedLayer layer;
  try {
    layer.runnable = peer.prepare(problem);
    layer.detail = layer.runnable->detail();
  } catch (const Error& error) {
    layer.failed = error.what();
    layer.runnable = instead.prepare(problem);
  }
  return layer;
}

/// Of some layers, in their order.
PreparedNetwork prepare_network(ConvPeer& peer, ConvPeer& instead, ConvOperands& operands,
                                int threads) {
  PreparedNetwork prepared{peer.info().name, {}};
  const std::size_t count = operands.network().layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    prepared.layers.push_back(
        prepare_layer(peer, instead, operands.problem(i, peer.layout(), threads)));
  }
  ImageBuffers& images = operands.images(peer.layout());
  images.spoil();
  for (const PreparedLayer& layer : prepared.layers) {
    layer.runnable->run();
    layer.runnable->publish();
  }
  for (std::size_t i = 0; i < count; ++i) {
    PreparedLayer& layer = prepared.layers[i];
    if (!layer.failed.empty()) continue;
    layer.failed = check_layer(operands.network(), i, images, peer.info().rounding);
  }
  return prepared;
}

/// Of the layers with these numbers.
Sequence sequence_of(const PreparedNetwork& prepared, const std::vector<std::size_t>& numbers,
                     int threads) {
  Sequence sequence{prepared.library};
  for (const std::size_t number : numbers) {
    sequence.layers.emplace_back(
        [runnable = prepared.layers[number].runnable.get()] { runnable->run(); });
  }
  if (threads > 1) sequence.end_turn = [&prepared] { prepared.end_turn(); };
  return sequence;
}

std::vector<Sequence> sequences_of(const std::vector<PreparedNetwork>& networks,
                                   const std::vector<std::size_t>& numbers, int threads) {
  std::vector<Sequence> sequences;
  sequences.reserve(networks.size());
  for (const PreparedNetwork& network : networks) {
    sequences.push_back(sequence_of(network, numbers, threads));
  }
  return sequences;
}

/// The mean of a group's layers, sample by sample.
TimingResult mean_of(const SequenceTiming& timing, const std::vector<std::size_t>& group) {
  std::vector<double> means(timing.layers_us[group.front()].size(), 0.0);
  for (const std::size_t layer : group) {
    for (std::size_t i = 0; i < means.size(); ++i) {
      means[i] += timing.layers_us[layer][i] / static_cast<double>(group.size());
    }
  }
  return summarize_samples({}, std::move(means));
}

using Groups = std::vector<std::vector<std::size_t>>;

/// [libraries][groups]
std::vector<std::vector<TimingResult>> time_networks(const std::vector<PreparedNetwork>& networks,
                                                     const Groups& groups,
                                                     const ConvConditions& conditions,
                                                     const SequenceOptions& timing) {
  std::vector<std::size_t> numbers;
  if (conditions.hot) {
    for (const auto& group : groups) numbers.push_back(group.front());
    return time_alone(sequences_of(networks, numbers, conditions.threads), timing);
  }
  for (const auto& group : groups) numbers.insert(numbers.end(), group.begin(), group.end());
  std::ranges::sort(numbers);
  std::vector<std::vector<TimingResult>> times;
  for (const SequenceTiming& one :
       time_in_sequence(sequences_of(networks, numbers, conditions.threads), timing)) {
    auto& of_library = times.emplace_back();
    for (const auto& group : groups) of_library.push_back(mean_of(one, group));
  }
  return times;
}

ConvCase case_of(const ConvOperands& operands, const std::vector<std::size_t>& group,
                 const ConvConditions& conditions) {
  const std::vector<ConvLayer>& layers = operands.network().layers;
  const ConvLayer& first = layers[group.front()];
  ConvCase one;
  one.layer = first.name;
  one.origin = first.origin;
  one.layers = std::ssize(group);
  one.filters = first.weights.rows;
  one.shape = first.shape;
  for (const std::size_t layer : group) one.nnz += layers[layer].weights.nnz();
  one.batch = operands.batch();
  one.threads = conditions.threads;
  one.hot = conditions.hot;
  return one;
}

/// Of the layers of a group that count: all, or hot the first.
ConvTiming timing_of(const PreparedNetwork& network, const std::vector<std::size_t>& group,
                     bool hot) {
  ConvTiming timing{network.library, {}, network.layers[group.front()].detail, {}};
  for (const std::size_t layer : group) {
    if (timing.failed.empty()) timing.failed = network.layers[layer].failed;
    if (hot) break;
  }
  return timing;
}

}  // namespace

ConvOperands::ConvOperands(std::vector<ConvLayer> layers, std::int64_t batch)
    : network_(std::move(layers)),
      nchw_(network_.layers, Layout::row_major, batch),
      nhwc_(network_.layers, Layout::tokens_major, batch) {
  for (const ConvLayer& layer : network_.layers) dense_.push_back(dense_of(layer.weights));
}

ConvProblem ConvOperands::problem(std::size_t layer, Layout layout, int threads) {
  ImageBuffers& buffers = images(layout);
  return {&network_.layers[layer],
          dense_[layer].data(),
          network_.biases[layer].data(),
          batch(),
          threads,
          buffers.input(layer),
          buffers.output(layer),
          nnz_of(network_.layers)};
}

Groups group_by_convolution(const std::vector<ConvLayer>& layers) {
  Groups groups;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      const ConvLayer& other = layers[group.front()];
      return other.shape == layers[i].shape && other.weights.rows == layers[i].weights.rows;
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  return groups;
}

std::vector<ConvCase> measure_convolutions(const std::vector<std::unique_ptr<ConvPeer>>& peers,
                                           ConvOperands& operands, const ConvConditions& conditions,
                                           const ConvPeerSettings& settings,
                                           const SequenceOptions& timing) {
  const auto nchw = make_spjit_conv_peer(settings, "", Layout::row_major);
  const auto nhwc = make_spjit_conv_peer(settings, "", Layout::tokens_major);
  std::vector<PreparedNetwork> networks;
  std::vector<PreparedNetwork> failed;
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    ConvPeer& instead = peer->layout() == Layout::tokens_major ? *nhwc : *nchw;
    PreparedNetwork network = prepare_network(*peer, instead, operands, conditions.threads);
    if (conditions.threads > 1) network.end_turn();
    (network.any_timed() ? networks : failed).push_back(std::move(network));
  }
  const Groups groups = group_by_convolution(operands.network().layers);
  const auto times = time_networks(networks, groups, conditions, timing);
  std::vector<ConvCase> cases;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ConvCase& one = cases.emplace_back(case_of(operands, groups[i], conditions));
    for (std::size_t library = 0; library < networks.size(); ++library) {
      ConvTiming& added =
          one.timings.emplace_back(timing_of(networks[library], groups[i], conditions.hot));
      if (added.failed.empty()) added.time = times[library][i];
    }
    for (const PreparedNetwork& network : failed) {
      one.timings.push_back(timing_of(network, groups[i], conditions.hot));
    }
  }
  return cases;
}

}  // namespace spjit::bench
