#include "runtime/cuda/cuda_stream.hpp"

#include <fmt/format.h>

#include <utility>

namespace spjit {
namespace {

constexpr unsigned k_event_default = 0;        // CU_EVENT_DEFAULT: with a time
constexpr unsigned k_stream_non_blocking = 1;  // CU_STREAM_NON_BLOCKING

}  // namespace

CudaEvent::CudaEvent(CudaContext context) : context_(std::move(context)) {
  context_.call([&] { return fmt::format("make an event on {}", context_.device().label()); },
                &CudaApi::create_event, &handle_, k_event_default);
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
  context_.call([&] { return fmt::format("record an event on {}", context_.device().label()); },
                &CudaApi::record_event, handle_, stream);
}

void CudaEvent::synchronize() const {
  context_.call([&] { return fmt::format("wait for an event on {}", context_.device().label()); },
                &CudaApi::synchronize_event, handle_);
}

double CudaEvent::ms_since(const CudaEvent& earlier) const {
  float milliseconds = 0;
  context_.call(
      [&] {
        return fmt::format("take the time between two events on {}", context_.device().label());
      },
      &CudaApi::elapsed_ms, &milliseconds, earlier.handle_, handle_);
  return static_cast<double>(milliseconds);
}

CudaStream::CudaStream(CudaContext context) : context_(std::move(context)) {
  context_.call([&] { return fmt::format("make a stream on {}", context_.device().label()); },
                &CudaApi::create_stream, &handle_, k_stream_non_blocking);
}

CudaStream::CudaStream(CudaStream&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

CudaStream::~CudaStream() {
  if (handle_ == nullptr) return;
  context_.release([&](const CudaApi& api) { return api.destroy_stream(handle_); });
}

void CudaStream::synchronize() const {
  context_.call(
      [&] { return fmt::format("finish the work of a stream on {}", context_.device().label()); },
      &CudaApi::synchronize_stream, handle_);
}

}  // namespace spjit
