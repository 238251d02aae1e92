#include "runtime/cuda/cuda_module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// CUjit_option.
enum JitOption : int { error_log_buffer = 5, error_log_buffer_bytes = 6 };

// CUfunction_attribute.
constexpr int k_max_dynamic_shared_bytes = 8;

constexpr std::size_t k_log_bytes = 8192;

[[noreturn]] void refuse_image(const CudaContext& context, int result, std::size_t bytes,
                               const char* log) {
  const LocalGpu& device = context.device();
  std::string message =
      fmt::format("cannot load a module of {} bytes on {}, an sm_{}: {}", bytes, device.label(),
                  device.limits.arch, context.driver().describe(result));
  if (result == k_cuda_no_binary_for_gpu) {
    message += fmt::format("; the code is for another architecture: compile for sm_{}",
                           device.limits.arch);
  }
  std::string printed = log;
  printed.erase(printed.find_last_not_of('\n') + 1);
  std::ranges::replace(printed, '\n', ' ');  // a message is one line
  if (!printed.empty()) message += "; the driver printed: " + printed;
  throw DeviceError(message, result);
}

CudaModuleHandle load_image(const CudaContext& context, std::span<const std::byte> image) {
  // The driver takes no size: text must end in a zero.
  const std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  std::string log(k_log_bytes, '\0');
  std::array<int, 2> options = {error_log_buffer, error_log_buffer_bytes};
  // The number itself is handed over as a pointer.
  std::array<void*, 2> values = {log.data(),
                                 // NOLINTNEXTLINE(performance-no-int-to-ptr)
                                 reinterpret_cast<void*>(std::uintptr_t{k_log_bytes - 1})};
  const CurrentCudaContext current(context);
  CudaModuleHandle handle = nullptr;
  const int result = context.driver().api().load_module(
      &handle, text.c_str(), static_cast<unsigned>(options.size()), options.data(), values.data());
  if (result != k_cuda_success) refuse_image(context, result, image.size(), log.c_str());
  return handle;
}

}  // namespace

struct CudaModule::State {
  State(const CudaContext& on, std::span<const std::byte> image)
      : context(on), handle(load_image(on, image)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    context.release([&](const CudaApi& api) { return api.unload_module(handle); });
  }

  CudaContext context;
  CudaModuleHandle handle;
};

CudaModule::CudaModule(const CudaContext& context, std::span<const std::byte> image)
    : state_(std::make_shared<const State>(context, image)) {}

CudaFunction CudaModule::function(const std::string& name) const { return {state_, name}; }

CudaFunction::CudaFunction(std::shared_ptr<const CudaModule::State> module, std::string name)
    : module_(std::move(module)), name_(std::move(name)) {
  context().call([&] { return fmt::format("find {}", label()); }, &CudaApi::function, &handle_,
                 module_->handle, name_.c_str());
}

const CudaContext& CudaFunction::context() const noexcept { return module_->context; }

void CudaFunction::set_max_dynamic_shared(int bytes) const {
  context().call(
      [&] { return fmt::format("allow {} bytes of dynamic shared memory for {}", bytes, label()); },
      &CudaApi::set_function_attribute, handle_, k_max_dynamic_shared_bytes, bytes);
}

void CudaFunction::load() const {
  if (context().driver().api().load_function == nullptr) return;
  context().call([&] { return fmt::format("load {}", label()); }, &CudaApi::load_function, handle_);
}

int CudaFunction::active_blocks_per_sm(int threads, std::size_t dynamic_shared_bytes) const {
  int blocks = 0;
  context().call(
      [&] {
        return fmt::format("ask how many blocks of {} threads of {} fit on an SM", threads,
                           label());
      },
      &CudaApi::active_blocks, &blocks, handle_, threads, dynamic_shared_bytes);
  return blocks;
}

void CudaFunction::launch(const CudaLaunchShape& shape, void* stream, void** parameters) const {
  const auto& [grid, block, dynamic_shared_bytes] = shape;
  context().call([&] { return fmt::format("launch {}", label(shape)); }, &CudaApi::launch, handle_,
                 grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_shared_bytes, stream,
                 parameters, nullptr);
}

std::string CudaFunction::label() const {
  return fmt::format("kernel {} on {}", name_, context().device().label());
}

std::string CudaFunction::label(const CudaLaunchShape& shape) const {
  const auto& [grid, block, dynamic_shared_bytes] = shape;
  return fmt::format(
      "kernel {} with a grid of {} x {} x {} blocks of {} x {} x {} threads and {} bytes of "
      "dynamic "
      "shared memory on {}",
      name_, grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_shared_bytes,
      context().device().label());
}

}  // namespace spjit
