#include "runtime/cuda/cuda_stream.hpp"

#include <fmt/format.h>

#include <utility>

namespace spjit {
namespace {

constexpr unsigned k_event_default = 0;        // CU_EVENT_DEFAULT: with a time
constexpr unsigned k_stream_non_blocking = 1;  // CU_STREAM_NON_BLOCKING

}  // namespace

CudaEvent::CudaEvent(CudaContext on) : handle_(nullptr, {std::move(on)}) {
  CudaEventHandle made = nullptr;
  context().call([&] { return fmt::format("make an event on {}", context().device().label()); },
                 &CudaApi::create_event, &made, k_event_default);
  handle_.reset(made);
}

void CudaEvent::Destroy::operator()(CudaEventHandle event) const noexcept {
  context.release([&](const CudaApi& api) { return api.destroy_event(event); });
}

void CudaEvent::record(void* stream) {
  context().call([&] { return fmt::format("record an event on {}", context().device().label()); },
                 &CudaApi::record_event, handle_.get(), stream);
}

void CudaEvent::synchronize() const {
  context().call([&] { return fmt::format("wait for an event on {}", context().device().label()); },
                 &CudaApi::synchronize_event, handle_.get());
}

double CudaEvent::ms_since(const CudaEvent& earlier) const {
  float milliseconds = 0;
  context().call(
      [&] {
        return fmt::format("take the time between two events on {}", context().device().label());
      },
      &CudaApi::elapsed_ms, &milliseconds, earlier.handle(), handle());
  return static_cast<double>(milliseconds);
}

CudaStream::CudaStream(CudaContext on) : handle_(nullptr, {std::move(on)}) {
  void* made = nullptr;
  context().call([&] { return fmt::format("make a stream on {}", context().device().label()); },
                 &CudaApi::create_stream, &made, k_stream_non_blocking);
  handle_.reset(made);
}

void CudaStream::Destroy::operator()(void* stream) const noexcept {
  context.release([&](const CudaApi& api) { return api.destroy_stream(stream); });
}

void CudaStream::synchronize() const {
  context().call(
      [&] { return fmt::format("finish the work of a stream on {}", context().device().label()); },
      &CudaApi::synchronize_stream, handle_.get());
}

void order_streams(const CudaContext& context, void* earlier, void* later) {
  CudaEvent event(context);
  event.record(earlier);
  context.call([&] { return fmt::format("order two streams on {}", context.device().label()); },
               &CudaApi::wait_event, later, event.handle(), 0U);
}

}  // namespace spjit
