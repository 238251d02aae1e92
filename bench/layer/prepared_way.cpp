#include "bench/layer/prepared_way.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/timing.hpp"
#include "bench/side_by_side/waiting.hpp"

namespace spjit::bench {
namespace {

constexpr Activation k_activation = Activation::gelu_erf;
/// More than a pool's.
constexpr std::chrono::milliseconds k_longest_spin{10};

/// The GELU of a sum and a bias. Its slope is below 1.13; docs/use/epilogue.md bounds the errors of
/// the library's, of which this is twice as much.
ExpectedElement finished(ExpectedElement sum, double bias) {
  constexpr double k_rounding = 0x1p-24;
  const double x = sum.value + bias;
  const double y = x / 2 * std::erfc(-x / std::numbers::sqrt2);
  const double bound = sum.bound + k_rounding * std::abs(x);
  return {y, 1.13 * bound + 40 * k_rounding * std::abs(y) + 1e-9};
}

}  // namespace

BiasedLayers::BiasedLayers(std::vector<NetworkLayer> given) : layers(std::move(given)) {
  for (const NetworkLayer& layer : layers) {
    biases.emplace_back(layer.matrix.rows, 0.0F);
    fill_operand(biases.back().data(), layer.matrix.rows, 1);
  }
}

PreparedWay::PreparedWay(Way way, WaySurroundings surroundings, LayerBuffers& buffers)
    : way_(std::move(way)), surroundings_(std::move(surroundings)), buffers_(&buffers) {
  const BiasedLayers& network = *surroundings_.network;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    auto layer = std::make_unique<Layer>(Layer{surroundings_.compiler.compile(problem(i))});
    layer->arguments = arguments(i);
    if (way_.runtime_values) prepare_values(*layer, network.layers[i].matrix);
    layer->pass = {layer->arguments.c.as<float>(), network.layers[i].matrix.rows, buffers.shape(),
                   network.biases[i].data(), k_activation};
    layers_.push_back(std::move(layer));
  }
}

Problem PreparedWay::problem(std::size_t layer) const {
  // The matrix is the network's: no copy.
  const std::shared_ptr<const CsrMatrix> a(surroundings_.network,
                                           &surroundings_.network->layers[layer].matrix);
  Problem problem;
  problem.a = a;
  problem.n = way_.typical_n ? Extent::at_run_time(*way_.typical_n)
                             : Extent(buffers_->shape().tokens_each());
  problem.b.layout = way_.layout;
  problem.c.layout = way_.layout;
  problem.runtime_values = way_.runtime_values;
  if (way_.finishing == Finishing::fused) {
    problem.epilogue.bias = true;
    problem.epilogue.activation = k_activation;
  }
  return problem;
}

Arguments PreparedWay::arguments(std::size_t layer) const {
  const CsrMatrix& a = surroundings_.network->layers[layer].matrix;
  const TokenShape& shape = buffers_->shape();
  Arguments arguments;
  arguments.b = {buffers_->input(layer), {.distance = shape.tokens_each() * a.cols}};
  arguments.c = {buffers_->output(layer), {.distance = shape.tokens_each() * a.rows}};
  arguments.n = shape.tokens_each();
  arguments.batch = shape.batch;
  if (way_.finishing == Finishing::fused) {
    arguments.bias = surroundings_.network->biases[layer].data();
  }
  return arguments;
}

void PreparedWay::prepare_values(Layer& layer, const CsrMatrix& a) const {
  std::vector<double> times_us;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    layer.values = layer.kernel.prepare_values(a.values);
    times_us.push_back(1e3 * ms_since(begin));
  }
  layer.arguments.values = &layer.values;
  layer.prepare_us = summarize_samples({}, times_us).median_us;
}

void PreparedWay::run(std::size_t layer) const {
  const Layer& one = *layers_[layer];
  one.kernel.run(one.arguments);
  if (way_.finishing != Finishing::apart) return;
  run_separate_pass(one.pass, one.kernel.info().target.isa(), *surroundings_.pool);
}

std::string PreparedWay::check() {
  buffers_->spoil();
  for (std::size_t i = 0; i < layers_.size(); ++i) run(i);
  LayerCheck check;
  if (way_.finishing != Finishing::none) {
    check.finish = [this](std::size_t layer, std::int64_t row, ExpectedElement sum) {
      return finished(sum, surroundings_.network->biases[layer].data()[row]);
    };
  }
  return check_layers(surroundings_.network->layers, *buffers_, check);
}

Sequence PreparedWay::sequence() const {
  Sequence sequence{way_.name};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    sequence.layers.emplace_back([this, i] { run(i); });
  }
  if (surroundings_.pool->threads() > 1) {
    sequence.end_turn = [] { side_by_side::wait_until_others_sleep(k_longest_spin); };
  }
  return sequence;
}

const std::string& PreparedWay::family(std::size_t layer) const {
  return layers_[layer]->kernel.info().family;
}

std::optional<double> PreparedWay::prepare_us(std::size_t layer) const {
  if (!way_.runtime_values) return std::nullopt;
  return layers_[layer]->prepare_us;
}

}  // namespace spjit::bench
