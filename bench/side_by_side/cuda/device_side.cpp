#include "bench/side_by_side/cuda/device_side.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"

namespace spjit::side_by_side {
namespace {

constexpr std::size_t k_products_a_run = 20;  // at least
constexpr std::byte k_nan_byte{0xFF};

std::size_t bytes_of(std::int64_t rows, std::int64_t n) {
  return static_cast<std::size_t>(rows * n) * sizeof(float);
}

}  // namespace

std::shared_ptr<DeviceOperands> DeviceSide::operands(const Problem& problem) {
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

std::int64_t DeviceSide::copies(std::int64_t a_bytes) const {
  return 1 + ceil_div(between_bytes_, std::max<std::int64_t>(a_bytes, 1));
}

TimingClock DeviceSide::clock() const {
  return [this, steady = steady_timing_clock()] {
    stream_.synchronize();
    return steady();
  };
}

DeviceRunnable::DeviceRunnable(std::shared_ptr<DeviceSide> side, const Problem& problem,
                               const WorkMaker& make)
    : side_(std::move(side)),
      operands_(side_->operands(problem)),
      works_([&] {
        std::vector<std::unique_ptr<DeviceWork>> works;
        const auto& [b, c] = *operands_;
        works.push_back(make(b, c));
        const std::int64_t copies = side_->copies(works.front()->a_bytes());
        while (std::ssize(works) < copies) works.push_back(make(b, c));
        return works;
      }()),
      problem_(problem),
      graph_(record()) {}

CudaGraph DeviceRunnable::record() {
  const CudaStream& stream = side_->stream();
  const auto* const b = static_cast<const float*>(operands_->b.pointer());
  auto* const c = static_cast<float*>(operands_->c.pointer());
  // Libraries load code and allocate at their first call, which cannot be recorded.
  for (const auto& work : works_) work->enqueue(b, c, stream.handle());
  stream.synchronize();
  return CudaGraph::capture(stream, [&] {
    for (int i = 0; i < products(); ++i) {
      works_[static_cast<std::size_t>(i) % works_.size()]->enqueue(b, c, stream.handle());
    }
  });
}

int DeviceRunnable::products() const {
  return static_cast<int>(std::max(k_products_a_run, works_.size()));
}

void DeviceRunnable::publish() {
  side_->stream().synchronize();
  works_.front()->finish(operands_->c);
  const std::size_t size = operands_->c.bytes() / sizeof(float);
  operands_->c.download(std::as_writable_bytes(std::span(problem_.c, size)));
}

}  // namespace spjit::side_by_side
