/// @file
/// spjit's convolutions.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bench/convolution/conv_kernels.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "spjit/version.hpp"

namespace spjit::bench {
namespace {

using side_by_side::Runnable;

class ConvRunnable final : public Runnable {
 public:
  ConvRunnable(Kernel kernel, const Arguments& arguments)
      : kernel_(std::move(kernel)), arguments_(arguments) {}

  void run() override { kernel_.run(arguments_); }

  [[nodiscard]] std::string detail() const override { return describe_choice(kernel_); }

 private:
  Kernel kernel_;
  Arguments arguments_;
};

class SpjitConvPeer final : public ConvPeer {
 public:
  SpjitConvPeer(side_by_side::PeerInfo info, Layout layout, ConvKernels kernels)
      : ConvPeer(std::move(info), layout), kernels_(std::move(kernels)) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    const Convolution& shape = problem.layer->shape;
    const std::int64_t filters = problem.layer->weights.rows;
    Problem of = with_bias_and_relu();
    of.operation = Operation::conv2d;
    of.a = borrowed(problem.layer->weights);
    of.b.layout = layout();
    of.c.layout = layout();
    of.convolution = shape;
    Arguments arguments;
    arguments.b = {problem.x, {.distance = shape.channels * shape.height * shape.width}};
    arguments.c = {problem.y, {.distance = filters * shape.output_height() * shape.output_width()}};
    arguments.bias = problem.bias;
    arguments.batch = problem.batch;
    return std::make_unique<ConvRunnable>(kernels_.compile(of, problem), arguments);
  }

 private:
  ConvKernels kernels_;
};

}  // namespace

std::unique_ptr<ConvPeer> make_spjit_conv_peer(const ConvPeerSettings& settings,
                                               const std::string& family, Layout layout) {
  const std::string name =
      (family.empty() ? "spjit" : family) + (layout == Layout::tokens_major ? "-nhwc" : "");
  return std::make_unique<SpjitConvPeer>(
      side_by_side::PeerInfo{name, SPJIT_VERSION, "jit", "", "cold compile"}, layout,
      ConvKernels(settings, family));
}

}  // namespace spjit::bench
