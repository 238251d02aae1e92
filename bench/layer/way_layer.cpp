#include "bench/layer/way_layer.hpp"

#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/timing.hpp"

namespace spjit::bench {
namespace {

constexpr Activation k_activation = Activation::gelu_erf;

/// The GELU of a sum and a bias. Its slope is below 1.13; docs/use/epilogue.md bounds the errors of
/// the library's, of which this is twice as much.
ExpectedElement finished(ExpectedElement sum, double bias) {
  constexpr double k_rounding = 0x1p-24;
  const double x = sum.value + bias;
  const double y = x / 2 * std::erfc(-x / std::numbers::sqrt2);
  const double bound = sum.bound + k_rounding * std::abs(x);
  return {y, 1.13 * bound + 40 * k_rounding * std::abs(y) + 1e-9};
}

Problem problem_of(const Way& way, const WaySurroundings& surroundings, std::int64_t tokens,
                   std::size_t layer) {
  // The matrix is the network's: no copy.
  const std::shared_ptr<const CsrMatrix> a(surroundings.network,
                                           &surroundings.network->layers[layer].matrix);
  Problem problem;
  problem.a = a;
  problem.n = way.typical_n ? Extent::at_run_time(*way.typical_n) : Extent(tokens);
  problem.b.layout = way.layout;
  problem.c.layout = way.layout;
  problem.runtime_values = way.runtime_values;
  if (way.finishing == Finishing::fused) {
    problem.epilogue.bias = true;
    problem.epilogue.activation = k_activation;
  }
  return problem;
}

}  // namespace

BiasedLayers::BiasedLayers(std::vector<NetworkLayer> given) : layers(std::move(given)) {
  for (const NetworkLayer& layer : layers) {
    biases.emplace_back(layer.matrix.rows, 0.0F);
    fill_operand(biases.back().data(), layer.matrix.rows, 1);
  }
}

WayLayer::WayLayer(const Way& way, const WaySurroundings& surroundings, LayerBuffers& buffers,
                   std::size_t layer)
    : kernel_(surroundings.compiler.compile(
          problem_of(way, surroundings, buffers.shape().tokens_each(), layer))),
      finishing_(way.finishing),
      pool_(surroundings.pool) {
  const CsrMatrix& a = surroundings.network->layers[layer].matrix;
  const float* const bias = surroundings.network->biases[layer].data();
  const TokenShape& shape = buffers.shape();
  arguments_.b = {buffers.input(layer), {.distance = shape.tokens_each() * a.cols}};
  arguments_.c = {buffers.output(layer), {.distance = shape.tokens_each() * a.rows}};
  arguments_.n = shape.tokens_each();
  arguments_.batch = shape.batch;
  if (way.finishing == Finishing::fused) arguments_.bias = bias;
  if (way.runtime_values) prepare_values(a);
  pass_ = {arguments_.c.as<float>(), a.rows, shape, bias, k_activation};
}

void WayLayer::prepare_values(const CsrMatrix& a) {
  std::vector<double> times_us;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    values_ = kernel_.prepare_values(a.values);
    times_us.push_back(1e3 * ms_since(begin));
  }
  arguments_.values = &values_;
  values_ms_ = summarize_samples({}, times_us).median_us / 1e3;
}

void WayLayer::run() {
  kernel_.run(arguments_);
  if (finishing_ != Finishing::apart) return;
  run_separate_pass(pass_, kernel_.info().target.isa(), *pool_);
}

std::string check_way_layer(const Way& way, const BiasedLayers& network,
                            const LayerBuffers& buffers, std::size_t layer) {
  LayerCheck check;
  if (way.finishing != Finishing::none) {
    check.finish = [&](std::int64_t row, ExpectedElement sum) {
      return finished(sum, network.biases[layer].data()[row]);
    };
  }
  return check_layer(network.layers, layer, buffers, check);
}

}  // namespace spjit::bench
