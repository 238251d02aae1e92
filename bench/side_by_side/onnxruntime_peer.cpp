/// @file
/// ONNX Runtime: MatMul of activations as its users have them.

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bench/host/buffers.hpp"
#include "bench/side_by_side/onnx_model.hpp"
#include "bench/side_by_side/onnxruntime_library.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

/// B or C as ONNX Runtime's users have them, a row a token: `[n x features]`. NaN at first.
class Activations {
 public:
  Activations(std::int64_t features, std::int64_t n)
      : features_(features),
        n_(n),
        values_(features * n, std::numeric_limits<float>::quiet_NaN()) {}

  [[nodiscard]] bool are(std::int64_t features, std::int64_t n) const {
    return features_ == features && n_ == n;
  }
  /// `rows`: `[features x n]`.
  void read(const float* rows) {
    for (std::int64_t i = 0; i < features_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) values_.data()[j * features_ + i] = rows[i * n_ + j];
    }
  }
  void write(float* rows) const {
    for (std::int64_t i = 0; i < features_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) rows[i * n_ + j] = values_.data()[j * features_ + i];
    }
  }
  [[nodiscard]] OnnxTensor tensor() { return {values_.data(), {n_, features_}}; }

 private:
  std::int64_t features_;
  std::int64_t n_;
  bench::AlignedFloats values_;
};

class OnnxRunnable final : public Runnable {
 public:
  OnnxRunnable(const OnnxRuntime& library, const Problem& problem,
               std::shared_ptr<Activations> input, std::shared_ptr<Activations> output)
      : input_(std::move(input)),
        output_(std::move(output)),
        session_(library.prepare(onnx_matmul_model({problem.matrix->rows, problem.matrix->cols,
                                                    problem.n, require_dense(problem)}),
                                 problem.threads, input_->tensor(), output_->tensor())),
        c_(problem.c) {}

  void run() override { session_->run(); }

  void publish() override { output_->write(c_); }

 private:
  std::shared_ptr<Activations> input_;
  std::shared_ptr<Activations> output_;
  std::unique_ptr<Runnable> session_;
  float* c_;
};

class OnnxPeer final : public Peer {
 public:
  OnnxPeer(PeerInfo info, OnnxRuntime library)
      : Peer(std::move(info)), library_(std::move(library)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    const CsrMatrix& a = *problem.matrix;
    auto [input, is_new] = activations_at(problem.b, a.cols, problem.n);
    if (is_new) input->read(problem.b);
    auto output = activations_at(problem.c, a.rows, problem.n).first;
    return std::make_unique<OnnxRunnable>(library_, problem, std::move(input), std::move(output));
  }

 private:
  /// B or C at `place` in the other layout, and whether nobody has it yet: a layer reads what
  /// another wrote.
  std::pair<std::shared_ptr<Activations>, bool> activations_at(const float* place,
                                                               std::int64_t features,
                                                               std::int64_t n) {
    std::weak_ptr<Activations>& known = activations_[place];
    std::shared_ptr<Activations> found = known.lock();
    const bool is_new = found == nullptr || !found->are(features, n);
    if (is_new) {
      found = std::make_shared<Activations>(features, n);
      known = found;
    }
    return {std::move(found), is_new};
  }

  OnnxRuntime library_;
  std::map<const float*, std::weak_ptr<Activations>> activations_;
};

}  // namespace

std::unique_ptr<Peer> make_onnxruntime_peer(const PeerSettings& settings) {
  OnnxRuntime::Loaded loaded = OnnxRuntime::load(settings.onnxruntime_folder);
  PeerInfo info{"onnxruntime", "", "dense", loaded.reason, "packing"};
  if (!loaded.library) return make_missing_peer(std::move(info));
  info.version = fmt::format("ONNX Runtime {}, MatMul, W constant", loaded.library->version());
  return std::make_unique<OnnxPeer>(std::move(info), *std::move(loaded.library));
}

}  // namespace spjit::side_by_side
