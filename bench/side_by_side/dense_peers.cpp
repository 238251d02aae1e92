/// @file
/// OpenBLAS and oneDNN, both loaded at run time.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/dense_runnable.hpp"
#include "bench/side_by_side/dnnl_engine.hpp"
#include "bench/side_by_side/dnnl_library.hpp"
#include "bench/side_by_side/peer_ways.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"
#include "tools/peers/blas_calls.hpp"
#include "tools/peers/openblas.hpp"

namespace spjit::side_by_side {
namespace {

class OpenBlasPeer final : public Peer {
 public:
  explicit OpenBlasPeer(OpenBlas library)
      : Peer({"openblas", library.version(), "dense", "", "transposing"}),
        library_(std::move(library)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    library_.set_threads(problem.threads);
    const DenseProblem dense = dense_problem(problem);
    return std::make_unique<DenseRunnable>(library_.calls(dense), dense);
  }

 private:
  OpenBlas library_;
};

// From oneDNN's dnnl.h, versions 1 to 3.
using DnnlSize = std::int64_t;
constexpr int k_dnnl_success = 0;
using DnnlSgemm = int(char transpose_a, char transpose_b, DnnlSize m, DnnlSize n, DnnlSize k,
                      float alpha, const float* a, DnnlSize lda, const float* b, DnnlSize ldb,
                      float beta, float* c, DnnlSize ldc);

void check(int status) {
  if (status != k_dnnl_success) throw Error(fmt::format("dnnl_sgemm failed: status {}", status));
}

/// As a BLAS whose row-major sgemm it is; it has no sgemv of its own for n = 1, sgemm goes there.
std::vector<DenseCall> dnnl_calls(DnnlSgemm* sgemm, const DenseProblem& p) {
  // Leading dimensions must be 1 at least even where there is nothing to read.
  const DnnlSize ld_of_k = std::max<DnnlSize>(1, p.k);
  const DnnlSize ld_of_m = std::max<DnnlSize>(1, p.m);
  const DnnlSize ld_of_n = std::max<DnnlSize>(1, p.n);
  std::vector<DenseCall> calls;
  for (const BlasWay way : dnnl_ways(p.n)) {
    DenseCall call{"dnnl_" + std::string(to_string(way))};
    if (way == BlasWay::gemm) {
      call.run = [=](const float* b, float* c) {
        check(sgemm('N', 'N', p.m, p.n, p.k, 1.0F, p.a, ld_of_k, b, ld_of_n, 0.0F, c, ld_of_n));
      };
    } else if (way == BlasWay::gemm_of_tokens) {
      call.has_tokens = true;
      call.run = [=](const float* b, float* c) {
        check(sgemm('N', 'T', p.n, p.m, p.k, 1.0F, b, ld_of_k, p.a, ld_of_k, 0.0F, c, ld_of_m));
      };
    } else {
      call.has_tokens = true;
      const auto weights = std::make_shared<const FloatBuffer>(transposed_weights(p));
      call.run = [=](const float* b, float* c) {
        check(sgemm('N', 'N', p.n, p.m, p.k, 1.0F, b, ld_of_k, weights->data(), ld_of_m, 0.0F, c,
                    ld_of_m));
      };
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

/// Tokens times A, which oneDNN reordered once into what suits it: its advice for inference.
DenseCall dnnl_packed_call(const DnnlEngine& engine, const DenseProblem& p) {
  const DnnlChoice choice = engine.choose(DnnlProduct{p.n, p.k, p.m});
  // A `[m x k]` is the weights `[k x m]` column by column.
  const DnnlDesc plain = engine.describe_columns(p.k, p.m);
  const DnnlArray given = engine.array(plain, const_cast<float*>(p.a));
  const DnnlArray weights = engine.array(choice.weights, nullptr);
  engine.run(engine.copy(plain, given, choice.weights, weights));
  const DnnlArray tokens = engine.array(choice.src, const_cast<float*>(p.b));
  const DnnlArray sums = engine.array(choice.dst, p.c);
  const DnnlCall call = DnnlEngine::product(choice, {tokens.get(), weights.get(), sums.get()});
  return {fmt::format("{}, {}", k_dnnl_packed, choice.implementation), true,
          [=](const float* b, float* c) {
            engine.move(tokens, b);
            engine.move(sums, c);
            engine.run(call);
            static_cast<void>(weights);  // kept
          }};
}

class DnnlPeer final : public Peer {
 public:
  DnnlPeer(PeerInfo info, DnnlLibrary library)
      : Peer(std::move(info)),
        library_(std::move(library)),
        sgemm_(library_.functions().require<DnnlSgemm>("dnnl_sgemm")) {
    if (library_.major_version() == k_packing_version) engine_.emplace(library_);
  }

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    library_.set_threads(problem.threads);
    const DenseProblem dense = dense_problem(problem);
    std::vector<DenseCall> calls = dnnl_calls(sgemm_, dense);
    const bool is_empty = dense.m == 0 || dense.k == 0 || dense.n == 0;
    if (engine_ && !is_empty) calls.push_back(dnnl_packed_call(*engine_, dense));
    return std::make_unique<DenseRunnable>(std::move(calls), dense);
  }

 private:
  static constexpr int k_packing_version = 3;

  DnnlLibrary library_;
  DnnlSgemm* sgemm_;
  std::optional<DnnlEngine> engine_;
};

}  // namespace

std::unique_ptr<Peer> make_openblas_peer(const PeerSettings& /*settings*/) {
  OpenBlas::Loaded loaded = OpenBlas::load();
  if (!loaded.library) return make_missing_peer({"openblas", "", "dense", loaded.reason});
  return std::make_unique<OpenBlasPeer>(*std::move(loaded.library));
}

std::unique_ptr<Peer> make_onednn_peer(const PeerSettings& settings) {
  PeerInfo info{"onednn", "", "dense", "", "packing"};
  std::optional<DnnlLibrary> library = DnnlLibrary::load(settings.onednn_folder);
  if (!library) library = DnnlLibrary::load({});
  if (!library) {
    info.missing = "libdnnl.so.3 and libdnnl.so.2 cannot be loaded; 'apt-get install libdnnl2'";
    return make_missing_peer(std::move(info));
  }
  info.version = library->version();
  return std::make_unique<DnnlPeer>(std::move(info), *std::move(library));
}

}  // namespace spjit::side_by_side
