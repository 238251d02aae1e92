/// @file
/// OpenBLAS and oneDNN, both loaded at run time.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "bench/side_by_side/dnnl_library.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"
#include "tools/peers/openblas.hpp"

namespace spjit::side_by_side {
namespace {

DenseProblem dense_problem(const Problem& problem) {
  return {problem.matrix->rows,
          problem.matrix->cols,
          problem.n,
          require_dense(problem),
          problem.b,
          problem.c};
}

class OpenBlasRunnable final : public Runnable {
 public:
  OpenBlasRunnable(OpenBlas library, const DenseProblem& problem)
      : library_(std::move(library)), problem_(problem) {}

  void run() override { library_.sgemm(problem_); }

 private:
  OpenBlas library_;
  DenseProblem problem_;
};

class OpenBlasPeer final : public Peer {
 public:
  explicit OpenBlasPeer(OpenBlas library)
      : Peer({"openblas", library.version(), "dense"}), library_(std::move(library)) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    library_.set_threads(problem.threads);
    return std::make_unique<OpenBlasRunnable>(library_, dense_problem(problem));
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

class DnnlRunnable final : public Runnable {
 public:
  DnnlRunnable(DnnlSgemm* sgemm, const DenseProblem& problem) : sgemm_(sgemm), problem_(problem) {}

  void run() override {
    const DenseProblem& p = problem_;
    // Leading dimensions must be 1 at least even where there is nothing to read.
    const int status = sgemm_('N', 'N', p.m, p.n, p.k, 1.0F, p.a, std::max<DnnlSize>(1, p.k), p.b,
                              p.n, 0.0F, p.c, p.n);
    if (status != k_dnnl_success) throw Error(fmt::format("dnnl_sgemm failed: status {}", status));
  }

 private:
  DnnlSgemm* sgemm_;
  DenseProblem problem_;
};

class DnnlPeer final : public Peer {
 public:
  DnnlPeer(PeerInfo info, DnnlLibrary library)
      : Peer(std::move(info)),
        library_(std::move(library)),
        sgemm_(library_.functions().require<DnnlSgemm>("dnnl_sgemm")) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    library_.set_threads(problem.threads);
    return std::make_unique<DnnlRunnable>(sgemm_, dense_problem(problem));
  }

 private:
  DnnlLibrary library_;
  DnnlSgemm* sgemm_;
};

}  // namespace

std::unique_ptr<Peer> make_openblas_peer(const PeerSettings& /*settings*/) {
  OpenBlas::Loaded loaded = OpenBlas::load();
  if (!loaded.library) return make_missing_peer({"openblas", "", "dense", loaded.reason});
  return std::make_unique<OpenBlasPeer>(*std::move(loaded.library));
}

std::unique_ptr<Peer> make_onednn_peer(const PeerSettings& /*settings*/) {
  PeerInfo info{"onednn", "", "dense"};
  std::optional<DnnlLibrary> library = DnnlLibrary::load({});
  if (!library) {
    info.missing = "libdnnl.so.3 and libdnnl.so.2 cannot be loaded; 'apt-get install libdnnl2'";
    return make_missing_peer(std::move(info));
  }
  info.version = library->version() + ", dnnl_sgemm";
  return std::make_unique<DnnlPeer>(std::move(info), *std::move(library));
}

}  // namespace spjit::side_by_side
