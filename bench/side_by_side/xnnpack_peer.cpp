/// @file
/// XNNPACK's sparse microkernel, by the way that is public: a 1x1 convolution of channel-major
/// images is C = A * B with a channel a row, and XNNPACK computes it from A's nonzeros. Takes
/// batches and biases.

#include <fmt/format.h>
#include <pthreadpool.h>
#include <xnnpack.h>

#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

struct DeleteOperator {
  void operator()(xnn_operator_t op) const { xnn_delete_operator(op); }
};
using Operator = std::unique_ptr<xnn_operator, DeleteOperator>;

void check(const char* what, xnn_status status) {
  if (status != xnn_status_success) {
    throw NotSupported(fmt::format("{}: status {}", what, static_cast<int>(status)));
  }
}

/// Later versions take caches before the result.
template <class Create, class... Arguments>
xnn_status create(Create* function, xnn_operator_t* made, Arguments... arguments) {
  if constexpr (std::is_invocable_v<Create*, Arguments..., xnn_operator_t*>) {
    return function(arguments..., made);
  } else {
    return function(arguments..., nullptr, made);
  }
}

Operator make_operator(const Problem& problem) {
  const auto m = static_cast<std::size_t>(problem.matrix->rows);
  const auto k = static_cast<std::size_t>(problem.matrix->cols);
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  const float least = problem.bias == nullptr ? -k_infinity : 0.0F;
  xnn_operator_t made = nullptr;
  // No padding; kernel, stride and dilation 1x1; one group; no flags.
  check("xnn_create_convolution2d_nchw_f32",
        create(xnn_create_convolution2d_nchw_f32, &made, 0U, 0U, 0U, 0U, 1U, 1U, 1U, 1U, 1U, 1U, 1U,
               k, m, k, m, require_dense(problem), problem.bias, least, k_infinity, 0U));
  return Operator(made);
}

class XnnRunnable final : public Runnable {
 public:
  /// `pool`: null for one thread.
  XnnRunnable(const Problem& problem, std::shared_ptr<pthreadpool> pool)
      : pool_(std::move(pool)), operator_(make_operator(problem)) {
    check("xnn_setup_convolution2d_nchw_f32",
          xnn_setup_convolution2d_nchw_f32(operator_.get(), static_cast<std::size_t>(problem.batch),
                                           1, static_cast<std::size_t>(problem.n), problem.b,
                                           problem.c, pool_.get()));
  }

  void run() override { check("xnn_run_operator", xnn_run_operator(operator_.get(), pool_.get())); }

  /// An empty task after which its threads sleep instead of spinning for milliseconds.
  void rest() override {
    if (pool_ == nullptr) return;
    pthreadpool_parallelize_1d(
        pool_.get(), [](void* /*context*/, std::size_t /*index*/) {}, nullptr,
        pthreadpool_get_threads_count(pool_.get()), PTHREADPOOL_FLAG_YIELD_WORKERS);
  }

 private:
  std::shared_ptr<pthreadpool> pool_;
  Operator operator_;
};

class XnnPeer final : public Peer {
 public:
  using Peer::Peer;
  ~XnnPeer() override { xnn_deinitialize(); }

  std::unique_ptr<Runnable> prepare(const Problem& problem) override {
    return std::make_unique<XnnRunnable>(problem, pool_of(problem.threads));
  }

 private:
  /// The one of so many threads while anybody uses it.
  std::shared_ptr<pthreadpool> pool_of(int threads) {
    if (threads == 1) return nullptr;
    std::weak_ptr<pthreadpool>& known = pools_[threads];
    std::shared_ptr<pthreadpool> pool = known.lock();
    if (pool == nullptr) {
      pool.reset(pthreadpool_create(static_cast<std::size_t>(threads)), pthreadpool_destroy);
      known = pool;
    }
    return pool;
  }

  std::map<int, std::weak_ptr<pthreadpool>> pools_;
};

}  // namespace

std::unique_ptr<Peer> make_xnnpack_peer(const PeerSettings& /*settings*/) {
  PeerInfo info{"xnnpack", "XNNPACK " SPJIT_XNNPACK_VERSION ", convolution2d_nchw_f32", "sparse",
                "", "packing"};
  const xnn_status status = xnn_initialize(nullptr);
  if (status != xnn_status_success) {
    info.missing = fmt::format("xnn_initialize: status {}", static_cast<int>(status));
    return make_missing_peer(std::move(info));
  }
  return std::make_unique<XnnPeer>(std::move(info));
}

}  // namespace spjit::side_by_side
