#include "bench/model/measure_network.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/host/buffers.hpp"
#include "bench/side_by_side/waiting.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using side_by_side::Peer;
using side_by_side::Runnable;

/// A library with all its layers ready.
struct Ready {
  NetworkTiming* timing = nullptr;
  int threads = 1;
  std::vector<std::unique_ptr<Runnable>> layers = {};

  /// The layers share the library's threads.
  void end_turn() const {
    if (threads > 1 && !layers.empty()) side_by_side::end_turn(*layers.back());
  }
};

Ready prepare(Peer& peer, LayerOperands& operands, int threads, NetworkTiming& timing) {
  Ready ready{&timing, threads};
  try {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      ready.layers.push_back(peer.prepare(operands.problem(i, threads)));
    }
    timing.prepare_ms = ms_since(begin);
    for (const auto& layer : ready.layers) timing.details.push_back(layer->detail());
    operands.spoil();
    for (const auto& layer : ready.layers) {
      layer->receive();
      layer->run();
      layer->publish();
    }
    timing.failed = operands.check(peer.info().rounding);
    ready.end_turn();
  } catch (const Error& error) {
    timing.failed = error.what();
  }
  if (!timing.failed.empty()) ready.layers.clear();
  return ready;
}

std::vector<Sequence> sequences_of(const std::vector<Ready>& all) {
  std::vector<Sequence> sequences;
  for (const Ready& ready : all) {
    Sequence& sequence = sequences.emplace_back(Sequence{ready.timing->library});
    for (const auto& layer : ready.layers) {
      sequence.layers.emplace_back([runnable = layer.get()] { runnable->run(); });
    }
    sequence.end_turn = [&ready] { ready.end_turn(); };
  }
  return sequences;
}

TimingResult sum_of(const std::vector<TimingResult>& layers) {
  TimingResult sum;
  for (const TimingResult& layer : layers) {
    sum.median_us += layer.median_us;
    sum.min_us += layer.min_us;
    sum.mean_us += layer.mean_us;
    sum.samples = sum.samples == 0 ? layer.samples : std::min(sum.samples, layer.samples);
  }
  return sum;
}

}  // namespace

LayerOperands::LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros)
    : layers_(std::move(layers)), buffers_(layers_, {n}) {
  if (!with_zeros) return;
  for (const NetworkLayer& layer : layers_) dense_.push_back(dense_of(layer.matrix));
}

side_by_side::Problem LayerOperands::problem(std::size_t layer, int threads) {
  return {&layers_[layer].matrix,
          dense_.empty() ? nullptr : dense_[layer].data(),
          buffers_.shape().n,
          threads,
          buffers_.input(layer),
          buffers_.output(layer),
          nnz()};
}

std::int64_t LayerOperands::nnz() const noexcept { return nnz_of(layers_); }

std::string LayerOperands::check(double rounding) const {
  return check_layers(layers_, buffers_, {rounding});
}

std::vector<NetworkTiming> measure_network(const std::vector<std::unique_ptr<Peer>>& peers,
                                           LayerOperands& operands, int threads, bool hot,
                                           const SequenceOptions& options) {
  std::vector<NetworkTiming> timings;
  for (const auto& peer : peers) {
    if (peer->info().missing.empty()) timings.push_back({.library = peer->info().name});
  }
  std::vector<Ready> all;
  auto timing = timings.begin();
  for (const auto& peer : peers) {
    if (!peer->info().missing.empty()) continue;
    Ready ready = prepare(*peer, operands, threads, *timing++);
    if (!ready.layers.empty()) all.push_back(std::move(ready));
  }
  const std::vector<Sequence> sequences = sequences_of(all);
  const std::vector<SequenceTiming> passes = time_in_sequence(sequences, options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].timing->pass = passes[i].pass;
    for (const auto& samples_us : passes[i].layers_us) {
      all[i].timing->layers_us.push_back(summarize_samples({}, samples_us).median_us);
    }
  }
  if (!hot) return timings;
  const std::vector<std::vector<TimingResult>> alone = time_alone(sequences, options);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].timing->hot = sum_of(alone[i]);
  return timings;
}

}  // namespace spjit::bench
