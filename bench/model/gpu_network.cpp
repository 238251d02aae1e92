#include "bench/model/gpu_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "base/number_text.hpp"
#include "bench/host/buffers.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "tests/support/cuda/cuda_graph.hpp"

namespace spjit::bench {
namespace {

using side_by_side::CudaPeer;
using side_by_side::Peer;

constexpr std::byte k_nan_byte{0xFF};
/// Launches of one layer in a graph: the driver's work for a launch is not timed.
constexpr std::size_t k_products_a_graph = 20;
/// Of fp32 after so many layers, relative to the norm of a token. Each layer adds some 1e-7.
constexpr double k_fp32_error = 1e-4;
/// No library whose layers are right has more, whatever its rounding: a wrong row gives over 0.01.
constexpr double k_most_error = 0.1;

struct Encoder {
  const char* name;
  int blocks;
  std::int64_t width;
};

constexpr Encoder k_encoders[] = {{"minilm", 6, 384}, {"bert", 12, 768}, {"tiny", 1, 16}};

NetworkLayer drawn_layer(std::string name, std::int64_t rows, std::int64_t cols, double sparsity,
                         std::uint64_t seed) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.seed = seed;
  NetworkLayer layer{std::move(name), generate_matrix(options)};
  normalize(layer.matrix, 1);
  return layer;
}

std::vector<NetworkLayer> encoder_layers(const Encoder& encoder, int percent) {
  const std::int64_t width = encoder.width;
  const double sparsity = percent / 100.0;
  std::vector<NetworkLayer> layers;
  std::uint64_t seed = static_cast<std::uint64_t>(percent) * 1000;
  for (int block = 0; block < encoder.blocks; ++block) {
    for (const char* part : {"query", "key", "value", "output"}) {
      layers.push_back(
          drawn_layer(fmt::format("{}.{}", block, part), width, width, sparsity, ++seed));
    }
    layers.push_back(drawn_layer(fmt::format("{}.up", block), 4 * width, width, sparsity, ++seed));
    layers.push_back(
        drawn_layer(fmt::format("{}.down", block), width, 4 * width, sparsity, ++seed));
  }
  return layers;
}

/// A times one column of B.
std::vector<double> product(const CsrMatrix& a, const std::vector<double>& b) {
  std::vector<double> c(static_cast<std::size_t>(a.rows));
  for (std::size_t row = 0; row < c.size(); ++row) {
    for (std::int64_t at = a.row_ptrs[row]; at < a.row_ptrs[row + 1]; ++at) {
      const auto entry = static_cast<std::size_t>(at);
      c[row] += double{a.values[entry]} * b[static_cast<std::size_t>(a.col_idxs[entry])];
    }
  }
  return c;
}

/// Column `token` of `[rows x n]`.
std::vector<double> column_of(const std::vector<float>& values, std::int64_t rows, std::int64_t n,
                              std::int64_t token) {
  std::vector<double> column;
  column.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    column.push_back(values[static_cast<std::size_t>(row * n + token)]);
  }
  return column;
}

/// ||given - expected|| / ||expected||; NaN if there is one.
double relative_error(const std::vector<double>& given, const std::vector<double>& expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (given[i] - expected[i]) * (given[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace

std::optional<Network> encoder_network(const std::string& name) {
  for (const Encoder& encoder : k_encoders) {
    const std::string start = fmt::format("{}-", encoder.name);
    if (!name.starts_with(start)) continue;
    const int percent = read_number<int>(std::string_view(name).substr(start.size())).value_or(-1);
    if (percent < 0 || percent > 100) return std::nullopt;
    return Network{name, [encoder, percent] { return encoder_layers(encoder, percent); }};
  }
  return std::nullopt;
}

GpuNetwork::GpuNetwork(std::vector<NetworkLayer> layers, std::int64_t n,
                       std::shared_ptr<side_by_side::DeviceSide> side)
    : layers_(std::move(layers)), n_(n), side_(std::move(side)), in_(side_->context(), 0) {
  if (layers_.empty()) throw InvalidArgument("a network without layers");
  std::int64_t most = layers_.front().matrix.cols;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const CsrMatrix& a = layers_[i].matrix;
    if (i > 0 && a.cols != layers_[i - 1].matrix.rows) {
      throw InvalidArgument(fmt::format("layer {} has {} columns, the one before it {} rows",
                                        layers_[i].name, a.cols, layers_[i - 1].matrix.rows));
    }
    most = std::max(most, a.rows);
  }
  input_.resize(static_cast<std::size_t>(most * n_));
  fill_operand(input_.data(), most, n_);
  const auto bytes = std::as_bytes(std::span(input_));
  in_ = DeviceBuffer(side_->context(), bytes.size());
  in_.upload(bytes);
  for (int i = 0; i < 2; ++i) turns_.emplace_back(side_->context(), bytes.size());
  for (const NetworkLayer& layer : layers_) {
    dense_.push_back(dense_of(layer.matrix));
    problems_.push_back(
        {.matrix = &layer.matrix, .dense = dense_.back().data(), .n = n_, .b = input_.data()});
  }
}

const DeviceBuffer& GpuNetwork::b_of(std::size_t layer) const {
  return layer == 0 ? in_ : c_of(layer - 1);
}

const DeviceBuffer& GpuNetwork::c_of(std::size_t layer) const { return turns_[layer % 2]; }

GpuNetwork::Works GpuNetwork::prepare(CudaPeer& peer, GpuNetworkTiming& timing) {
  try {
    Works works;
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < size(); ++i) {
      works.push_back(peer.maker(problems_[i])(b_of(i), c_of(i)));
      timing.a_bytes += works.back()->a_bytes();
      timing.details.push_back(works.back()->detail());
    }
    timing.prepare_ms = ms_since(begin);
    for (DeviceBuffer& turn : turns_) turn.fill_on(side_->stream().handle(), k_nan_byte);
    for (std::size_t i = 0; i < size(); ++i) enqueue(works, i);
    side_->stream().synchronize();
    timing.failed = check(peer.info().rounding);
    if (timing.failed.empty()) return works;
  } catch (const Error& error) {
    timing.failed = error.what();
  }
  return {};
}

void GpuNetwork::enqueue(const Works& works, std::size_t layer) const {
  works[layer]->enqueue(static_cast<const float*>(b_of(layer).pointer()),
                        static_cast<float*>(c_of(layer).pointer()), side_->stream().handle());
}

std::string GpuNetwork::check(double rounding) const {
  const std::int64_t rows = layers_.back().matrix.rows;
  std::vector<float> output(static_cast<std::size_t>(rows * n_));
  c_of(size() - 1).download(std::as_writable_bytes(std::span(output)));
  const double most = std::min(k_fp32_error * rounding, k_most_error);
  for (const std::int64_t token : {std::int64_t{0}, n_ / 2, n_ - 1}) {
    std::vector<double> expected = column_of(input_, layers_.front().matrix.cols, n_, token);
    for (const NetworkLayer& layer : layers_) expected = product(layer.matrix, expected);
    const double error = relative_error(column_of(output, rows, n_, token), expected);
    // Written so that a NaN is wrong.
    if (error <= most) continue;
    return fmt::format(
        "wrong: token {} of the output is off by {:.2g} of its norm, expected {:.2g}", token, error,
        most);
  }
  return {};
}

std::vector<TimingResult> GpuNetwork::time(const std::vector<Works>& works,
                                           const std::vector<std::size_t>& sequence,
                                           double budget_ms) const {
  std::vector<CudaGraph> graphs;
  std::vector<TimingCandidate> candidates;
  graphs.reserve(works.size());
  candidates.reserve(works.size());
  for (const Works& own : works) {
    graphs.push_back(CudaGraph::capture(side_->stream(), [&] {
      for (const std::size_t layer : sequence) enqueue(own, layer);
    }));
  }
  for (const CudaGraph& graph : graphs) {
    candidates.push_back({"", [this, &graph] { graph.launch(side_->stream().handle()); }});
  }
  TimingOptions options;
  options.warm_up_ms = std::min(20.0, budget_ms / 10);
  options.min_batch_us = 1000;
  options.min_samples = 3;
  options.budget_ms = budget_ms;
  options.clock = side_->clock();
  return measure_interleaved(candidates, options);
}

std::vector<GpuNetworkTiming> GpuNetwork::measure(const std::vector<std::unique_ptr<Peer>>& peers,
                                                  const GpuNetworkOptions& options) {
  std::vector<GpuNetworkTiming> all;
  all.reserve(peers.size());
  std::vector<Works> works;
  std::vector<GpuNetworkTiming*> timings;
  for (const auto& peer : peers) {
    auto* const own = dynamic_cast<CudaPeer*>(peer.get());
    if (own == nullptr) continue;
    all.push_back({peer->info().name});
    Works ready = prepare(*own, all.back());
    if (ready.empty()) continue;
    works.push_back(std::move(ready));
    timings.push_back(&all.back());
  }
  if (options.check_only || works.empty()) return all;
  std::vector<std::size_t> sequence(size());
  std::iota(sequence.begin(), sequence.end(), 0);
  const std::vector<TimingResult> passes = time(works, sequence, options.budget_ms);
  for (std::size_t way = 0; way < works.size(); ++way) timings[way]->pass = passes[way];
  for (const std::size_t layer : sequence) {
    const std::vector<TimingResult> alone =
        time(works, std::vector(k_products_a_graph, layer), options.hot_budget_ms);
    for (std::size_t way = 0; way < works.size(); ++way) {
      timings[way]->hot_us.push_back(alone[way].median_us / k_products_a_graph);
    }
  }
  return all;
}

}  // namespace spjit::bench
