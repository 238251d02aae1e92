#include "runtime/cuda/cuda_stream.hpp"

#include <fmt/format.h>

#include <utility>

namespace spjit {
namespace {

constexpr unsigned k_event_default = 0;        // CU_EVENT_DEFAULT: with a time
constexpr unsigned k_stream_non_blocking = 1;  // CU_STREAM_NON_BLOCKING

}  // namespace

CudaEvent::CudaEvent(CudaContext context) : context_(std::move(context)) {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().create_event(&handle_, k_event_default),
               [&] { return fmt::format("make an event on {}", context_.device().label()); });
}

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

CudaEvent::~CudaEvent() {
  if (handle_ == nullptr) return;
  context_.release([&](const CudaApi& api) { return api.destroy_event(handle_); });
}

void CudaEvent::record(void* stream) {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().record_event(handle_, stream),
               [&] { return fmt::format("record an event on {}", context_.device().label()); });
}

void CudaEvent::synchronize() const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().synchronize_event(handle_),
               [&] { return fmt::format("wait for an event on {}", context_.device().label()); });
}

double CudaEvent::ms_since(const CudaEvent& earlier) const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  float milliseconds = 0;
  driver.check(driver.api().elapsed_ms(&milliseconds, earlier.handle_, handle_), [&] {
    return fmt::format("take the time between two events on {}", context_.device().label());
  });
  return static_cast<double>(milliseconds);
}

CudaStream::CudaStream(CudaContext context) : context_(std::move(context)), is_owned_(true) {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().create_stream(&handle_, k_stream_non_blocking),
               [&] { return fmt::format("make a stream on {}", context_.device().label()); });
}

CudaStream CudaStream::borrowed(CudaContext context, void* stream) noexcept {
  return {std::move(context), stream};
}

CudaStream::CudaStream(CudaStream&& other) noexcept
    : context_(std::move(other.context_)),
      handle_(std::exchange(other.handle_, nullptr)),
      is_owned_(std::exchange(other.is_owned_, false)) {}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  std::swap(is_owned_, other.is_owned_);
  return *this;
}

CudaStream::~CudaStream() {
  if (!is_owned_) return;
  context_.release([&](const CudaApi& api) { return api.destroy_stream(handle_); });
}

void CudaStream::synchronize() const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().synchronize_stream(handle_), [&] {
    return fmt::format("finish the work of a stream on {}", context_.device().label());
  });
}

bool CudaStream::is_idle() const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  const int result = driver.api().query_stream(handle_);
  if (result == k_cuda_not_ready) return false;
  driver.check(result, [&] {
    return fmt::format("ask for the state of a stream on {}", context_.device().label());
  });
  return true;
}

void CudaStream::wait_for(const CudaEvent& event) const {
  const CurrentCudaContext current(context_);
  const CudaDriver& driver = context_.driver();
  driver.check(driver.api().wait_for_event(handle_, event.handle(), 0), [&] {
    return fmt::format("let a stream wait for an event on {}", context_.device().label());
  });
}

}  // namespace spjit
