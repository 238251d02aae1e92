/// @file
/// Eigen's row-major sparse times row-major dense. CMakeLists.txt compiles this file alone with
/// -O3 -march=native -ffp-contract=fast: a template library is as fast as its user's flags.

#include <fmt/format.h>

#include <Eigen/SparseCore>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/thread_pool.hpp"
#include "bench/side_by_side/peers.hpp"
#include "kernels/host/loops/csr_kernel.hpp"

namespace spjit::side_by_side {
namespace {

using SparseRows = Eigen::SparseMatrix<float, Eigen::RowMajor, int>;
using DenseRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::Matrix<float, Eigen::Dynamic, 1>;

/// Some rows of A and where their part of C begins.
struct Part {
  SparseRows rows;
  float* c = nullptr;
};

SparseRows copy_rows(const CsrMatrix& matrix, RowRange range) {
  const auto first = matrix.row_ptrs[static_cast<std::size_t>(range.begin)];
  const auto last = matrix.row_ptrs[static_cast<std::size_t>(range.end)];
  std::vector<int> begins;
  for (std::int64_t row = range.begin; row <= range.end; ++row) {
    begins.push_back(static_cast<int>(matrix.row_ptrs[static_cast<std::size_t>(row)] - first));
  }
  const Eigen::Map<const SparseRows> view(range.end - range.begin, matrix.cols, last - first,
                                          begins.data(), matrix.col_idxs.data() + first,
                                          matrix.values.data() + first);
  return view;
}

/// On more threads the rows are cut as those of the CSR loop. Eigen's own OpenMP does the same with
/// a slower start, and its threads would spin into the next sample.
class EigenRunnable final : public Runnable {
 public:
  explicit EigenRunnable(const Problem& problem)
      : k_(problem.matrix->cols), n_(problem.n), b_(problem.b) {
    (void)to_int(problem.matrix->nnz());
    for (const RowRange range : split_rows(view_of(*problem.matrix), problem.threads)) {
      parts_.push_back({copy_rows(*problem.matrix, range), problem.c + range.begin * n_});
    }
    if (problem.threads > 1) pool_ = std::make_unique<WorkerPool>(problem.threads);
  }

  void run() override {
    const auto run_part = [&](int part, int /*worker*/) {
      multiply(parts_[static_cast<std::size_t>(part)]);
    };
    const auto parts = static_cast<int>(parts_.size());
    if (pool_ != nullptr) {
      pool_->run(parts, run_part);
      return;
    }
    for (int part = 0; part < parts; ++part) run_part(part, 0);
  }

 private:
  void multiply(const Part& part) const {
    const Eigen::Index rows = part.rows.rows();
    if (n_ == 1) {  // Eigen has a faster way for a vector, but must know when it is compiled
      Eigen::Map<Vector>(part.c, rows).noalias() = part.rows * Eigen::Map<const Vector>(b_, k_);
      return;
    }
    Eigen::Map<DenseRows>(part.c, rows, n_).noalias() =
        part.rows * Eigen::Map<const DenseRows>(b_, k_, n_);
  }

  Eigen::Index k_;
  Eigen::Index n_;
  const float* b_;
  std::vector<Part> parts_;
  std::unique_ptr<ThreadPool> pool_;  ///< null for one thread
};

class EigenPeer final : public Peer {
 public:
  using Peer::Peer;

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    return std::make_unique<EigenRunnable>(problem);
  }
};

}  // namespace

std::unique_ptr<Peer> make_eigen_peer(const PeerSettings& /*settings*/) {
  return std::make_unique<EigenPeer>(
      PeerInfo{"eigen",
               fmt::format("Eigen {}.{}.{}, {}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                           EIGEN_MINOR_VERSION, Eigen::SimdInstructionSetsInUse()),
               "sparse"});
}

}  // namespace spjit::side_by_side
