#include "runtime/cuda/cuda_graph.hpp"

#include <fmt/format.h>

#include <utility>

namespace spjit {
namespace {

// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may allocate meanwhile; this one may not.
constexpr int k_capture_thread_local = 1;

// The graph of a capture, until it is made executable.
class OwnedGraph {
 public:
  explicit OwnedGraph(const CudaApi& api) : api_(api) {}
  OwnedGraph(const OwnedGraph&) = delete;
  OwnedGraph& operator=(const OwnedGraph&) = delete;
  ~OwnedGraph() {
    if (handle_ != nullptr) static_cast<void>(api_.destroy_graph(handle_));
  }

  [[nodiscard]] CudaGraphHandle& handle() { return handle_; }

 private:
  const CudaApi& api_;
  CudaGraphHandle handle_ = nullptr;
};

}  // namespace

CudaGraph CudaGraph::capture(const CudaStream& stream, FunctionRef<void()> launches) {
  const CurrentCudaContext current(stream.context());
  const CudaDriver& driver = stream.context().driver();
  const auto what = [&] {
    return fmt::format("capture launches on {}", stream.context().device().label());
  };
  driver.check(driver.api().begin_capture(stream.handle(), k_capture_thread_local), what);
  OwnedGraph graph(driver.api());
  try {
    launches();
  } catch (...) {
    static_cast<void>(driver.api().end_capture(stream.handle(), &graph.handle()));
    throw;
  }
  driver.check(driver.api().end_capture(stream.handle(), &graph.handle()), what);
  return {stream.context(), graph.handle()};
}

CudaGraph::CudaGraph(CudaContext context, CudaGraphHandle graph) : context_(std::move(context)) {
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().instantiate(&executable_, graph, 0), [&] {
    return fmt::format("make captured launches executable on {}", context_.device().label());
  });
}

CudaGraph::CudaGraph(CudaGraph&& other) noexcept
    : context_(std::move(other.context_)), executable_(std::exchange(other.executable_, nullptr)) {}

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(executable_, other.executable_);
  return *this;
}

CudaGraph::~CudaGraph() {
  if (executable_ == nullptr) return;
  context_.release([&](const CudaApi& api) { return api.destroy_executable(executable_); });
}

void CudaGraph::launch(void* stream) const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().launch_graph(executable_, stream), [&] {
    return fmt::format("launch captured launches on {}", context_.device().label());
  });
}

}  // namespace spjit
