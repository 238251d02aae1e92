#include "runtime/cuda/cuda_context.hpp"

#include <fmt/format.h>

#include <utility>

namespace spjit {

CudaContext::State::State(std::shared_ptr<const CudaDriver> from, int ordinal)
    : driver(std::move(from)), device(describe_cuda_device(*driver, ordinal)) {
  driver->check(driver->api().device(&handle_of_device, ordinal),
                [&] { return fmt::format("get {}", device.label()); });
  driver->check(driver->api().retain_context(&handle, handle_of_device),
                [&] { return fmt::format("make the context of {}", device.label()); });
}

CudaContext::State::~State() { static_cast<void>(driver->api().release_context(handle_of_device)); }

CudaContext::CudaContext(std::shared_ptr<const CudaDriver> driver, int ordinal)
    : state_(std::make_shared<const State>(std::move(driver), ordinal)) {}

void CudaContext::synchronize() const {
  call([&] { return fmt::format("finish the work on {}", device().label()); },
       &CudaApi::synchronize_context);
}

CurrentCudaContext::CurrentCudaContext(const CudaContext& context) : context_(context) {
  const CudaDriver& driver = context.driver();
  driver.check(driver.api().current_context(&previous_),
               [] { return "ask for the thread's CUDA context"; });
  if (previous_ == context.handle()) return;
  driver.check(driver.api().set_current_context(context.handle()),
               [&] { return fmt::format("switch to {}", context.device().label()); });
}

CurrentCudaContext::~CurrentCudaContext() {
  if (previous_ == context_.handle()) return;
  static_cast<void>(context_.driver().api().set_current_context(previous_));
}

}  // namespace spjit
