/// @file
/// Products after an explicit im2col, image by image: spjit's, and OpenBLAS's with the zeros. Of a
/// 1x1 convolution with stride 1 X is B already.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/thread_pool.hpp"
#include "bench/convolution/conv_kernels.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "bench/convolution/im2col.hpp"
#include "bench/host/buffers.hpp"
#include "bench/layer/separate_pass.hpp"
#include "plan/convolution.hpp"
#include "spjit/version.hpp"
#include "tools/peers/openblas.hpp"

namespace spjit::bench {
namespace {

using side_by_side::Runnable;

/// What the layers of a network share.
struct PatchWorkspace {
  explicit PatchWorkspace(int threads) : pool(threads) {}

  float* at_least(std::int64_t floats) {
    if (floats > size) {
      patches = std::make_unique<AlignedFloats>(floats, 0.0F);
      size = floats;
    }
    return patches->data();
  }

  WorkerPool pool;
  std::unique_ptr<AlignedFloats> patches = {};
  std::int64_t size = 0;
};

/// The one of so many threads while anybody uses it.
class PatchWorkspaces {
 public:
  std::shared_ptr<PatchWorkspace> of(int threads) {
    std::shared_ptr<PatchWorkspace> found = known_[threads].lock();
    if (found == nullptr) {
      found = std::make_shared<PatchWorkspace>(threads);
      known_[threads] = found;
    }
    return found;
  }

 private:
  std::map<int, std::weak_ptr<PatchWorkspace>> known_;
};

/// Images of a batch, one after another, as B.
class PatchImages {
 public:
  PatchImages(const ConvProblem& problem, Layout layout, std::shared_ptr<PatchWorkspace> workspace)
      : shape_(problem.layer->shape),
        layout_(layout),
        filters_(problem.layer->weights.rows),
        batch_(problem.batch),
        x_(problem.x),
        y_(problem.y),
        workspace_(std::move(workspace)) {
    if (!is_pointwise(shape_)) workspace_->at_least(rows() * columns());
  }

  /// Of B with the channels of all groups.
  [[nodiscard]] std::int64_t rows() const {
    return shape_.channels * shape_.kernel_height * shape_.kernel_width;
  }
  [[nodiscard]] std::int64_t columns() const {
    return shape_.output_height() * shape_.output_width();
  }
  [[nodiscard]] PatchWorkspace& workspace() const { return *workspace_; }

  /// `multiply(b, y)`
  template <class Multiply>
  void for_each(const Multiply& multiply) const {
    for (std::int64_t image = 0; image < batch_; ++image) {
      const float* b = x_ + image * shape_.channels * shape_.height * shape_.width;
      if (!is_pointwise(shape_)) {
        float* const patches = workspace_->at_least(rows() * columns());
        const auto make = layout_ == Layout::tokens_major ? im2col_tokens : im2col;
        make(shape_, b, patches, workspace_->pool);
        b = patches;
      }
      multiply(b, y_ + image * filters_ * columns());
    }
  }

 private:
  Convolution shape_;
  Layout layout_;
  std::int64_t filters_;
  std::int64_t batch_;
  const float* x_;
  float* y_;
  std::shared_ptr<PatchWorkspace> workspace_;
};

class SpmmRunnable final : public Runnable {
 public:
  SpmmRunnable(Kernel kernel, PatchImages images, const float* bias)
      : kernel_(std::move(kernel)), images_(std::move(images)), bias_(bias) {}

  void run() override {
    images_.for_each([&](const float* b, float* y) {
      Arguments arguments;
      arguments.b = b;
      arguments.c = y;
      arguments.bias = bias_;
      kernel_.run(arguments);
    });
  }

  [[nodiscard]] std::string detail() const override { return describe_choice(kernel_); }

 private:
  Kernel kernel_;
  PatchImages images_;
  const float* bias_;
};

class Im2colSpmmPeer final : public ConvPeer {
 public:
  Im2colSpmmPeer(const ConvPeerSettings& settings, Layout layout)
      : ConvPeer({im2col_spmm_name(layout), SPJIT_VERSION, "jit", "", "cold compile"}, layout),
        kernels_(settings, "") {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    const Convolution& shape = problem.layer->shape;
    PatchImages images(problem, layout(), workspaces_.of(problem.threads));
    Problem of = with_bias_and_relu();
    of.a = borrowed(problem.layer->weights);
    if (shape.groups > 1) {
      of.a = std::make_shared<const CsrMatrix>(with_all_channels(*of.a, shape));
    }
    if (layout() == Layout::tokens_major) {
      const std::int64_t taps = shape.kernel_height * shape.kernel_width;
      of.a = std::make_shared<const CsrMatrix>(with_taps_outermost(*of.a, taps));
    }
    of.n = images.columns();
    of.b.layout = layout();
    of.c.layout = layout();
    return std::make_unique<SpmmRunnable>(kernels_.compile(of, problem), std::move(images),
                                          problem.bias);
  }

 private:
  static std::string im2col_spmm_name(Layout layout) {
    const std::string name = k_explicit_im2col;
    return layout == Layout::tokens_major ? name + k_nhwc_suffix : name;
  }

  ConvKernels kernels_;
  PatchWorkspaces workspaces_;
};

/// Group by group, and a pass for bias and ReLU.
class OpenBlasConvRunnable final : public Runnable {
 public:
  OpenBlasConvRunnable(OpenBlas library, const ConvProblem& problem, PatchImages images,
                       HostIsa isa)
      : library_(std::move(library)), problem_(problem), images_(std::move(images)), isa_(isa) {}

  void run() override {
    images_.for_each([&](const float* b, float* y) { run_image(b, y); });
  }

 private:
  void run_image(const float* b, float* y) const {
    const CsrMatrix& weights = problem_.layer->weights;
    const std::int64_t groups = problem_.layer->shape.groups;
    const std::int64_t filters = weights.rows / groups;
    const std::int64_t n = images_.columns();
    for (std::int64_t group = 0; group < groups; ++group) {
      library_.multiply({filters, weights.cols, n, problem_.dense + group * filters * weights.cols,
                         b + group * weights.cols * n, y + group * filters * n});
    }
    run_separate_pass({y, weights.rows, {n}, problem_.bias, Activation::relu}, isa_,
                      images_.workspace().pool);
  }

  OpenBlas library_;
  ConvProblem problem_;
  PatchImages images_;
  HostIsa isa_;
};

class Im2colOpenBlasPeer final : public ConvPeer {
 public:
  Im2colOpenBlasPeer(OpenBlas library, HostIsa isa)
      : ConvPeer({"im2col+openblas", library.version(), "dense"}, Layout::row_major),
        library_(std::move(library)),
        isa_(isa) {}

  std::unique_ptr<Runnable> prepare(const ConvProblem& problem) override {
    library_.set_threads(problem.threads);
    return std::make_unique<OpenBlasConvRunnable>(
        library_, problem, PatchImages(problem, layout(), workspaces_.of(problem.threads)), isa_);
  }

 private:
  OpenBlas library_;
  HostIsa isa_;
  PatchWorkspaces workspaces_;
};

}  // namespace

std::unique_ptr<ConvPeer> make_im2col_spmm_peer(const ConvPeerSettings& settings, Layout layout) {
  return std::make_unique<Im2colSpmmPeer>(settings, layout);
}

std::unique_ptr<ConvPeer> make_im2col_openblas_peer(const ConvPeerSettings& settings) {
  OpenBlas::Loaded loaded = OpenBlas::load();
  if (!loaded.library) {
    return make_missing_conv_peer({"im2col+openblas", "", "dense", loaded.reason});
  }
  return std::make_unique<Im2colOpenBlasPeer>(*std::move(loaded.library), settings.target.isa());
}

}  // namespace spjit::bench
