/// @file
/// oneDNN's convolution with bias and ReLU as post-operations, weights reordered beforehand.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/convolution/conv_peer.hpp"
#include "bench/side_by_side/dnnl_engine.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using side_by_side::DnnlArray;
using side_by_side::DnnlCall;
using side_by_side::DnnlChoice;
using side_by_side::DnnlConvolution;
using side_by_side::DnnlDesc;
using side_by_side::DnnlEngine;
using side_by_side::DnnlFormat;
using side_by_side::DnnlLibrary;
using side_by_side::PeerInfo;
using side_by_side::Runnable;

/// X or Y as a primitive has it, and as the caller has it, plain.
struct DnnlImage {
  DnnlDesc desc;
  DnnlArray array;
  DnnlDesc plain_desc;
  DnnlArray plain;

  [[nodiscard]] bool is_plain() const { return array == plain; }
};

/// Images by where the caller has them: in a network a layer reads what another wrote, and both
/// have one array if they agree on its format.
class DnnlPlaces {
 public:
  explicit DnnlPlaces(DnnlEngine engine) : engine_(std::move(engine)) {}

  /// `place`, as `plain` says, in the format `desc`. A new one has what the caller's has.
  std::shared_ptr<DnnlImage> at(const float* place, const DnnlDesc& plain, const DnnlDesc& desc) {
    auto& known = images_[place];
    std::erase_if(known, [](const auto& image) { return image.expired(); });
    for (const auto& image : known) {
      auto found = image.lock();
      if (engine_.are_equal(found->desc, desc) && engine_.are_equal(found->plain_desc, plain)) {
        return found;
      }
    }
    // Its interface has no const floats.
    auto made = std::make_shared<DnnlImage>();
    made->plain_desc = plain;
    made->plain = engine_.array(plain, const_cast<float*>(place));
    made->desc = desc;
    const bool same = engine_.are_equal(plain, desc);
    made->array = same ? made->plain : engine_.array(desc, nullptr);
    if (!same) engine_.run(engine_.copy(plain, made->plain, desc, made->array));
    known.push_back(made);
    return made;
  }

  /// To the caller, and to who reads it there in another format.
  void publish(const float* place, const DnnlImage& from) {
    if (!from.is_plain()) {
      engine_.run(engine_.copy(from.desc, from.array, from.plain_desc, from.plain));
    }
    for (const auto& image : images_[place]) {
      const auto other = image.lock();
      if (other == nullptr || other.get() == &from || other->is_plain()) continue;
      engine_.run(engine_.copy(from.plain_desc, from.plain, other->desc, other->array));
    }
  }

 private:
  DnnlEngine engine_;
  std::map<const float*, std::vector<std::weak_ptr<DnnlImage>>> images_;
};

DnnlConvolution dnnl_sizes_of(const ConvProblem& problem) {
  const Convolution& shape = problem.layer->shape;
  const std::int64_t filters = problem.layer->weights.rows;
  return {.src = {problem.batch, shape.channels, shape.height, shape.width},
          .dst = {problem.batch, filters, shape.output_height(), shape.output_width()},
          .weights = {shape.groups, filters / shape.groups, shape.channels / shape.groups,
                      shape.kernel_height, shape.kernel_width},
          .stride = {shape.stride_height, shape.stride_width},
          .dilation = {shape.dilation_height - 1, shape.dilation_width - 1},
          .pad_before = {shape.pad_top, shape.pad_left},
          .pad_after = {shape.pad_bottom, shape.pad_right}};
}

class DnnlConvRunnable final : public Runnable {
 public:
  DnnlConvRunnable(DnnlEngine engine, std::shared_ptr<DnnlPlaces> images,
                   const ConvProblem& problem, DnnlImages kind)
      : engine_(std::move(engine)), images_(std::move(images)), y_(problem.y) {
    const DnnlConvolution of = dnnl_sizes_of(problem);
    const DnnlFormat plain =
        kind == DnnlImages::nhwc ? DnnlFormat::channels_last : DnnlFormat::plain;
    const DnnlChoice choice =
        engine_.choose(of, kind == DnnlImages::nhwc ? plain : DnnlFormat::any);
    implementation_ = choice.implementation;
    src_ = images_->at(problem.x, engine_.describe(of.src, plain), choice.src);
    dst_ = images_->at(problem.y, engine_.describe(of.dst, plain), choice.dst);
    prepare_constants(problem, of, choice);
    convolution_ = DnnlEngine::convolution(
        choice, {src_->array.get(), weights_.get(), bias_.get(), dst_->array.get()});
    if (kind != DnnlImages::nchw) return;
    if (!src_->is_plain()) {
      before_ = engine_.copy(src_->plain_desc, src_->plain, src_->desc, src_->array);
      implementation_ += ", reorder before";
    }
    if (!dst_->is_plain()) {
      after_ = engine_.copy(dst_->desc, dst_->array, dst_->plain_desc, dst_->plain);
      implementation_ += ", reorder after";
    }
  }

  void run() override {
    engine_.run(before_);
    engine_.run(convolution_);
    engine_.run(after_);
  }

  void publish() override { images_->publish(y_, *dst_); }

  [[nodiscard]] std::string detail() const override { return implementation_; }

 private:
  void prepare_constants(const ConvProblem& problem, const DnnlConvolution& of,
                         const DnnlChoice& choice) {
    const std::span<const std::int64_t> sizes(of.weights);
    const DnnlDesc plain =
        engine_.describe(of.weights[0] > 1 ? sizes : sizes.subspan(1), DnnlFormat::plain);
    const DnnlArray given = engine_.array(plain, const_cast<float*>(problem.dense));
    weights_ = engine_.array(choice.weights, nullptr);
    engine_.run(engine_.copy(plain, given, choice.weights, weights_));
    bias_ = engine_.array(engine_.describe(std::array{of.dst[1]}, DnnlFormat::plain),
                          const_cast<float*>(problem.bias));
  }

  DnnlEngine engine_;
  std::shared_ptr<DnnlPlaces> images_;
  const float* y_;
  std::string implementation_;
  std::shared_ptr<DnnlImage> src_;
  std::shared_ptr<DnnlImage> dst_;
  DnnlArray weights_;
  DnnlArray bias_;
  DnnlCall before_;
  DnnlCall convolution_;
  DnnlCall after_;
};

class DnnlConvPeer final : public ConvPeer {
 public:
  DnnlConvPeer(PeerInfo info, DnnlEngine engine, DnnlImages kind)
      : ConvPeer(std::move(info),
                 kind == DnnlImages::nhwc ? Layout::tokens_major : Layout::row_major),
        engine_(std::move(engine)),
        images_(std::make_shared<DnnlPlaces>(engine_)),
        kind_(kind) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    engine_.library().set_threads(problem.threads);
    return std::make_unique<DnnlConvRunnable>(engine_, images_, problem, kind_);
  }

 private:
  DnnlEngine engine_;
  std::shared_ptr<DnnlPlaces> images_;
  DnnlImages kind_;
};

PeerInfo onednn_info(DnnlImages kind) {
  if (kind == DnnlImages::blocked) return {"onednn", "blocked images", "dense", "", "packing"};
  if (kind == DnnlImages::nchw) return {"onednn-nchw", "reorders", "dense", "", "packing"};
  return {"onednn-nhwc", "NHWC images", "dense", "", "packing"};
}

}  // namespace

std::unique_ptr<ConvPeer> make_onednn_conv_peer(const ConvPeerSettings& settings,
                                                DnnlImages images) {
  // An algorithm of oneDNN's choice may be Winograd's, whose sums of transformed values are off by
  // some ten times as much as plain ones.
  constexpr double k_winograd_rounding = 64;
  PeerInfo info = onednn_info(images);
  info.rounding = k_winograd_rounding;
  const std::optional<DnnlLibrary> library = DnnlLibrary::load(settings.onednn_folder);
  if (!library) {
    info.missing =
        "libdnnl.so.3 cannot be loaded; 'scripts/build/setup_peers.sh' brings it from PyPI";
    return make_missing_conv_peer(std::move(info));
  }
  try {
    DnnlEngine engine(*library);
    info.version = library->version() + ", " + info.version;
    return std::make_unique<DnnlConvPeer>(std::move(info), std::move(engine), images);
  } catch (const Error& error) {
    info.missing = error.what();
    return make_missing_conv_peer(std::move(info));
  }
}

}  // namespace spjit::bench
