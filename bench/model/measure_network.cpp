#include "bench/model/measure_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/call_timer.hpp"
#include "bench/side_by_side/waiting.hpp"
#include "spjit/error.hpp"
#include "tests/support/float64_check.hpp"

namespace spjit::bench {
namespace {

using side_by_side::Peer;
using side_by_side::Runnable;

constexpr std::int64_t k_checked_columns = 8;

/// A library with all its layers ready.
struct Ready {
  NetworkTiming* timing = nullptr;
  int threads = 1;
  std::vector<std::unique_ptr<Runnable>> layers = {};
  std::vector<double> latest_us = {};                ///< of the latest pass, a layer each
  std::vector<std::vector<double>> samples_us = {};  ///< [layers][passes that count]

  /// A pass. Reading the clock once a layer is less than a thousandth of it.
  void run(const TimingClock& clock) {
    latest_us.resize(layers.size());
    auto before = clock();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layers[i]->run();
      const auto after = clock();
      latest_us[i] = std::chrono::duration<double, std::micro>(after - before).count();
      before = after;
    }
  }
  void keep_pass() {
    samples_us.resize(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) samples_us[i].push_back(latest_us[i]);
  }
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

/// All layers in sequence, the libraries interleaved. A pass that does not count comes before each
/// that does: what the others left in the caches is not the network's.
void time_passes(std::vector<Ready>& all, const NetworkTimingOptions& options) {
  std::vector<TimingCandidate> candidates;
  candidates.reserve(all.size());
  for (Ready& ready : all) {
    const auto run = [&] { ready.run(options.clock); };
    const auto end = [&ready] {
      ready.keep_pass();
      ready.end_turn();
    };
    candidates.push_back({ready.timing->library, run, end, run});
  }
  const CallTimer timer({}, {}, options.clock);
  const std::vector<TimingResult> results = measure_single_calls(
      candidates, timer, {options.min_samples, options.max_samples, options.budget_ms});
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].timing->pass = results[i];
    for (const auto& samples : all[i].samples_us) {
      all[i].timing->layers_us.push_back(summarize_samples({}, samples).median_us);
    }
  }
}

/// Each layer alone, the libraries interleaved; times are summed over the layers.
void time_hot(const std::vector<Ready>& all, std::size_t layers,
              const NetworkTimingOptions& options) {
  TimingOptions of_layer;
  of_layer.clock = options.clock;
  of_layer.budget_ms = options.budget_ms / static_cast<double>(std::max<std::size_t>(layers, 1));
  of_layer.warm_up_ms = 0.2;
  of_layer.min_batch_us = 50;
  of_layer.min_samples = 3;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<TimingCandidate> candidates;
    for (const Ready& ready : all) {
      Runnable* const runnable = ready.layers[layer].get();
      candidates.push_back(
          {ready.timing->library, [runnable] { runnable->run(); }, [&ready] { ready.end_turn(); }});
    }
    const std::vector<TimingResult> results = measure_interleaved(candidates, of_layer);
    for (std::size_t i = 0; i < all.size(); ++i) {
      TimingResult& sum = all[i].timing->hot;
      sum.median_us += results[i].median_us;
      sum.min_us += results[i].min_us;
      sum.mean_us += results[i].mean_us;
      sum.samples = layer == 0 ? results[i].samples : std::min(sum.samples, results[i].samples);
    }
  }
}

}  // namespace

LayerOperands::LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros)
    : n_(n), layers_(std::move(layers)) {
  std::map<std::int64_t, std::size_t> latest;  // buffers by rows
  for (const NetworkLayer& layer : layers_) {
    const CsrMatrix& a = layer.matrix;
    if (!latest.contains(a.cols)) {
      latest[a.cols] = buffers_.size();
      buffers_.emplace_back(a.cols * n, 0.0F);
      fill_operand(buffers_.back().data(), a.cols, n);
    }
    inputs_.push_back(latest[a.cols]);
    outputs_.push_back(buffers_.size());
    latest[a.rows] = buffers_.size();
    buffers_.emplace_back(a.rows * n, 0.0F);
    if (with_zeros) dense_.push_back(dense_of(a));
  }
}

side_by_side::Problem LayerOperands::problem(std::size_t layer, int threads) {
  return {&layers_[layer].matrix,
          dense_.empty() ? nullptr : dense_[layer].data(),
          n_,
          threads,
          buffers_[inputs_[layer]].data(),
          buffers_[outputs_[layer]].data(),
          nnz()};
}

std::int64_t LayerOperands::nnz() const noexcept {
  std::int64_t nnz = 0;
  for (const NetworkLayer& layer : layers_) nnz += layer.matrix.nnz();
  return nnz;
}

void LayerOperands::spoil() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    std::fill_n(buffers_[outputs_[i]].data(), layers_[i].matrix.rows * n_,
                std::numeric_limits<float>::quiet_NaN());
  }
}

std::string LayerOperands::check(double rounding) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const side_by_side::Problem problem = this->problem(i, 1);
    const std::int64_t columns = std::min(n_, k_checked_columns);
    for (const std::int64_t first : std::set{std::int64_t{0}, n_ - columns}) {
      const ErrorReport report = compare_with_float64(
          layers_[i].matrix,
          {.b = problem.b + first, .ldb = n_, .c = problem.c + first, .ldc = n_, .n = columns});
      if (report.max_bound_ratio <= rounding) continue;
      return fmt::format("wrong: layer {} ({}): C[{}][{}] is off by {:.2g} times the bound", i,
                         layers_[i].name, report.row, first + report.col, report.max_bound_ratio);
    }
  }
  return {};
}

std::vector<NetworkTiming> measure_network(const std::vector<std::unique_ptr<Peer>>& peers,
                                           LayerOperands& operands, int threads, bool hot,
                                           const NetworkTimingOptions& options) {
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
  if (all.empty()) return timings;
  time_passes(all, options);
  if (hot) time_hot(all, operands.size(), options);
  return timings;
}

}  // namespace spjit::bench
