/// @file
/// libxsmm's fsspmdm: code for a fixed sparse A, or its dense code where that is faster, which it
/// finds out by running both.

#include <fmt/format.h>
#include <libxsmm.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/thread_pool.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

/// How many distinct values its sparse code takes in libxsmm 1.17 (of float); with more it has only
/// its dense code.
constexpr std::size_t k_most_sparse_values = 480;
/// It compares each value with all distinct ones before it: more than these would take seconds.
constexpr std::size_t k_most_values = 16'000;
/// Its choice runs both kernels 250 times; more multiply-adds than these would take seconds.
constexpr double k_most_products = 5e8;

struct Destroy {
  void operator()(libxsmm_sfsspmdm* kernel) const { libxsmm_sfsspmdm_destroy(kernel); }
};
using Kernel = std::unique_ptr<libxsmm_sfsspmdm, Destroy>;

/// Columns [first, first + n) of B and C.
struct XsmmPart {
  Kernel kernel;
  std::int64_t first = 0;
};

Kernel make_kernel(const Problem& problem, std::int64_t columns) {
  const int m = to_int(problem.matrix->rows);
  const int k = to_int(problem.matrix->cols);
  const int n = to_int(problem.n);
  constexpr int k_with_cache = 0;  // streaming stores would write past caches that C fits in
  Kernel kernel(libxsmm_sfsspmdm_create(m, to_int(columns), k, k, n, n, 1.0F, 0.0F, k_with_cache,
                                        require_dense(problem)));
  if (kernel == nullptr) throw NotSupported("fsspmdm makes no kernel for this matrix");
  return kernel;
}

std::size_t distinct_values(const CsrMatrix& matrix) {
  return std::unordered_set<float>(matrix.values.begin(), matrix.values.end()).size();
}

double products_of(const Problem& problem) {
  return static_cast<double>(problem.matrix->rows) * static_cast<double>(problem.matrix->cols) *
         static_cast<double>(problem.n);
}

std::vector<std::int64_t> empty_rows_of(const CsrMatrix& matrix) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    if (matrix.row_ptrs[row] == matrix.row_ptrs[row + 1]) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  return rows;
}

/// fsspmdm has no threads of its own: each takes some of the columns.
class XsmmRunnable final : public Runnable {
 public:
  XsmmRunnable(const Problem& problem, std::int64_t lanes, bool may_be_sparse)
      : may_be_sparse_(may_be_sparse),
        n_(problem.n),
        b_(problem.b),
        c_(problem.c),
        empty_rows_(empty_rows_of(*problem.matrix)) {
    const std::int64_t vectors = problem.n / lanes;
    const std::int64_t share = ceil_div(vectors, problem.threads) * lanes;
    for (std::int64_t first = 0; first < problem.n; first += share) {
      parts_.push_back({make_kernel(problem, std::min(share, problem.n - first)), first});
    }
    if (problem.threads > 1) pool_ = std::make_unique<WorkerPool>(problem.threads);
  }

  void run() override {
    // Its sparse code never writes them.
    for (const std::int64_t row : empty_rows_) std::fill_n(c_ + row * n_, n_, 0.0F);
    const auto run_part = [&](int index, int /*worker*/) {
      const XsmmPart& part = parts_[static_cast<std::size_t>(index)];
      libxsmm_sfsspmdm_execute(part.kernel.get(), b_ + part.first, c_ + part.first);
    };
    const auto parts = static_cast<int>(parts_.size());
    if (pool_ != nullptr) {
      pool_->run(parts, run_part);
      return;
    }
    for (int part = 0; part < parts; ++part) run_part(part, 0);
  }

  [[nodiscard]] std::string detail() const override {
    return may_be_sparse_ ? "its sparse or its dense code" : "its dense code";
  }

 private:
  bool may_be_sparse_;
  std::int64_t n_;
  const float* b_;
  float* c_;
  std::vector<std::int64_t> empty_rows_;
  std::vector<XsmmPart> parts_;
  std::unique_ptr<ThreadPool> pool_;  ///< null for one thread
};

class XsmmPeer final : public Peer {
 public:
  XsmmPeer(PeerInfo info, std::int64_t lanes) : Peer(std::move(info)), lanes_(lanes) {}

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    if (problem.n % lanes_ != 0) {
      throw NotSupported(fmt::format("fsspmdm takes an n that is a multiple of {}", lanes_));
    }
    const std::size_t distinct = distinct_values(*problem.matrix);
    if (distinct > k_most_values) {
      throw NotSupported(fmt::format(
          "{} distinct values: fsspmdm would compare them all with each other for seconds, then "
          "take its dense code, as it does over {}",
          distinct, k_most_sparse_values));
    }
    const bool may_be_sparse = distinct <= k_most_sparse_values;
    const double products = products_of(problem);
    if (may_be_sparse && products > k_most_products) {
      throw NotSupported(fmt::format(
          "{:.1e} dense multiply-adds: fsspmdm would run them 250 times to choose", products));
    }
    return std::make_unique<XsmmRunnable>(problem, lanes_, may_be_sparse);
  }

 private:
  std::int64_t lanes_;
};

}  // namespace

std::unique_ptr<Peer> make_libxsmm_peer(const PeerSettings& /*settings*/) {
  libxsmm_init();
  PeerInfo info{"libxsmm", "", "jit", "", "cold compile"};
  info.version =
      fmt::format("libxsmm {}, {}, sfsspmdm", LIBXSMM_VERSION, libxsmm_get_target_arch());
  const auto lanes = static_cast<std::int64_t>(libxsmm_cpuid_vlen32(libxsmm_get_target_archid()));
  return std::make_unique<XsmmPeer>(std::move(info), lanes);
}

}  // namespace spjit::side_by_side
