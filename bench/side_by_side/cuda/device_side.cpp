#include "bench/side_by_side/cuda/device_side.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace spjit::side_by_side {
namespace {

constexpr int k_products_a_run = 20;
constexpr std::byte k_nan_byte{0xFF};

std::size_t bytes_of(std::int64_t rows, std::int64_t n) {
  return static_cast<std::size_t>(rows * n) * sizeof(float);
}

}  // namespace

std::shared_ptr<const DeviceOperands> DeviceSide::operands(const Problem& problem) {
  const std::size_t b_bytes = bytes_of(problem.matrix->cols, problem.n);
  const std::size_t c_bytes = bytes_of(problem.matrix->rows, problem.n);
  const bool fits =
      operands_ != nullptr && operands_->b.bytes() == b_bytes && operands_->c.bytes() == c_bytes;
  if (!fits) {
    operands_.reset();
    operands_ = std::make_shared<DeviceOperands>(
        DeviceOperands{DeviceBuffer(context(), b_bytes), DeviceBuffer(context(), c_bytes)});
  }
  operands_->b.upload(std::as_bytes(std::span(problem.b, b_bytes / sizeof(float))));
  operands_->c.fill_on(stream_.handle(), k_nan_byte);
  stream_.synchronize();
  return operands_;
}

TimingClock DeviceSide::clock() const {
  return [this, steady = steady_timing_clock()] {
    stream_.synchronize();
    return steady();
  };
}

DeviceRunnable::DeviceRunnable(std::shared_ptr<DeviceSide> side, const Problem& problem,
                               std::unique_ptr<DeviceWork> work)
    : side_(std::move(side)),
      operands_(side_->operands(problem)),
      work_(std::move(work)),
      problem_(problem),
      graph_(record()) {}

CudaGraph DeviceRunnable::record() {
  const CudaStream& stream = side_->stream();
  const auto* const b = static_cast<const float*>(operands_->b.pointer());
  auto* const c = static_cast<float*>(operands_->c.pointer());
  // Libraries load code and allocate at their first call, which cannot be recorded.
  work_->enqueue(b, c, stream.handle());
  stream.synchronize();
  return CudaGraph::capture(stream, [&] {
    for (int i = 0; i < k_products_a_run; ++i) work_->enqueue(b, c, stream.handle());
  });
}

int DeviceRunnable::products() const { return k_products_a_run; }

void DeviceRunnable::publish() {
  side_->stream().synchronize();
  const std::size_t size = operands_->c.bytes() / sizeof(float);
  operands_->c.download(std::as_writable_bytes(std::span(problem_.c, size)));
}

}  // namespace spjit::side_by_side
