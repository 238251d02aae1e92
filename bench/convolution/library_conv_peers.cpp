/// @file
/// ONNX Runtime's Conv and XNNPACK's sparse 1x1 convolution.

#include <array>
#include <memory>
#include <utility>

#include "bench/convolution/conv_peer.hpp"
#include "bench/side_by_side/onnx_model.hpp"
#include "bench/side_by_side/onnxruntime_library.hpp"
#include "plan/convolution.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using side_by_side::OnnxRuntime;
using side_by_side::PeerInfo;
using side_by_side::Runnable;

/// A session a layer, with NCHW at its ends.
class OnnxConvPeer final : public ConvPeer {
 public:
  OnnxConvPeer(PeerInfo info, OnnxRuntime library)
      : ConvPeer(std::move(info), Layout::row_major), library_(std::move(library)) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    const Convolution& shape = problem.layer->shape;
    const std::int64_t filters = problem.layer->weights.rows;
    side_by_side::OnnxConvolution of;
    of.x = {problem.batch, shape.channels, shape.height, shape.width};
    of.y = {problem.batch, filters, shape.output_height(), shape.output_width()};
    of.weights = {filters, shape.channels / shape.groups, shape.kernel_height, shape.kernel_width};
    of.stride = {shape.stride_height, shape.stride_width};
    of.dilation = {shape.dilation_height, shape.dilation_width};
    of.pad = {shape.pad_top, shape.pad_left, shape.pad_bottom, shape.pad_right};
    of.groups = shape.groups;
    of.w = problem.dense;
    of.bias = problem.bias;
    // Its interface has no const floats, and X is only read.
    return library_.prepare(onnx_conv_model(of), problem.threads,
                            {const_cast<float*>(problem.x), {of.x.begin(), of.x.end()}},
                            {problem.y, {of.y.begin(), of.y.end()}});
  }

 private:
  OnnxRuntime library_;
};

class XnnConvPeer final : public ConvPeer {
 public:
  explicit XnnConvPeer(std::unique_ptr<side_by_side::Peer> products)
      : ConvPeer(products->info(), Layout::row_major), products_(std::move(products)) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    const Convolution& shape = problem.layer->shape;
    if (!is_pointwise(shape) || shape.groups != 1) {
      throw NotSupported("its sparse convolution is 1x1, with stride 1 and one group");
    }
    side_by_side::Problem product;
    product.matrix = &problem.layer->weights;
    product.dense = problem.dense;
    product.n = shape.height * shape.width;
    product.threads = problem.threads;
    product.b = problem.x;
    product.c = problem.y;
    product.batch = problem.batch;
    product.bias = problem.bias;
    return products_->prepare(product);
  }

 private:
  std::unique_ptr<side_by_side::Peer> products_;
};

}  // namespace

std::unique_ptr<ConvPeer> make_onnxruntime_conv_peer(const ConvPeerSettings& settings) {
  OnnxRuntime::Loaded loaded = OnnxRuntime::load(settings.onnxruntime_folder);
  PeerInfo info{"onnxruntime", "", "dense", loaded.reason, "packing"};
  if (!loaded.library) return make_missing_conv_peer(std::move(info));
  info.version = "ONNX Runtime " + loaded.library->version() + ", Conv and Relu, W and B constant";
  return std::make_unique<OnnxConvPeer>(std::move(info), *std::move(loaded.library));
}

std::unique_ptr<ConvPeer> make_xnnpack_conv_peer(const ConvPeerSettings& /*settings*/) {
  auto peers = side_by_side::make_peers({}, {"xnnpack"});
  return std::make_unique<XnnConvPeer>(std::move(peers.front()));
}

}  // namespace spjit::bench
