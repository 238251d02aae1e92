#include "emulated_driver/driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulated_driver/ptx_error.hpp"

namespace spjit::emulated {

namespace {

// Far more than a test may touch: only what is written takes memory.
constexpr std::uint64_t k_memory_bytes = std::uint64_t{80} << 30;
constexpr std::uint32_t k_max_threads = 1024;
constexpr std::uint32_t k_max_block_z = 64;
constexpr std::uint32_t k_max_grid_yz = 65535;

constexpr Architecture k_architectures[] = {
    {70, "V100", 80, 2048, 32, 98304, 98304, 0, 6 << 20},
    {75, "T4", 40, 1024, 16, 65536, 65536, 0, 4 << 20},
    {80, "A100", 108, 2048, 32, 167936, 166912, 1024, 40 << 20},
    {86, "RTX 3090", 82, 1536, 16, 102400, 101376, 1024, 6 << 20},
    {89, "RTX 4090", 128, 1536, 24, 102400, 101376, 1024, 72 << 20},
    {90, "H100", 132, 2048, 32, 233472, 232448, 1024, 50 << 20},
    {100, "B200", 148, 2048, 32, 233472, 232448, 1024, 126 << 20},
    {120, "RTX 5090", 170, 1536, 24, 102400, 101376, 1024, 96 << 20},
};

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

void*& current_slot() {
  thread_local void* current = nullptr;
  return current;
}

Result result_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::invalid_ptx:
    case FaultKind::unresolved_symbol:
      return Result::invalid_ptx;
    case FaultKind::illegal_address:
      return Result::illegal_address;
    case FaultKind::misaligned_address:
      return Result::misaligned_address;
    case FaultKind::trap:
      return Result::illegal_instruction;
    case FaultKind::launch_out_of_range:
      return Result::invalid_value;
    case FaultKind::timeout:
      return Result::launch_timeout;
    case FaultKind::uninitialized_read:
    case FaultKind::illegal_barrier:
      return Result::launch_failed;
  }
  return Result::launch_failed;
}

bool is_binary(const void* image) {
  constexpr unsigned char k_elf[] = {0x7f, 'E', 'L', 'F'};
  constexpr unsigned char k_fat[] = {0x50, 0xed, 0x55, 0xba};
  return std::memcmp(image, k_elf, 4) == 0 || std::memcmp(image, k_fat, 4) == 0;
}

bool is_launchable(const LaunchShape& shape) {
  const auto& [bx, by, bz] = shape.block;
  const auto& [gx, gy, gz] = shape.grid;
  const bool some = bx > 0 && by > 0 && bz > 0 && gx > 0 && gy > 0 && gz > 0;
  return some && bx <= k_max_threads && by <= k_max_threads && bz <= k_max_block_z &&
         std::uint64_t{bx} * by * bz <= k_max_threads && gx <= 0x7fffffffU && gy <= k_max_grid_yz &&
         gz <= k_max_grid_yz;
}

}  // namespace

const Architecture* find_architecture(int arch) {
  const auto* found = std::find_if(std::begin(k_architectures), std::end(k_architectures),
                                   [&](const Architecture& one) { return one.arch == arch; });
  return found == std::end(k_architectures) ? nullptr : found;
}

Device::Device(const Architecture& description)
    : architecture(description), memory(k_memory_bytes) {}

Driver& Driver::instance() {
  static Driver driver;
  return driver;
}

Result Driver::initialize() {
  if (initialized_) {
    return Result::success;
  }
  const int arch = environment_number("SPJIT_EMULATED_CUDA_ARCH", 90);
  const int count = environment_number("SPJIT_EMULATED_CUDA_DEVICES", 1);
  const Architecture* architecture = find_architecture(arch);
  if (architecture == nullptr || count < 0 || count > 16) {
    log(
        fmt::format("SPJIT_EMULATED_CUDA_ARCH={}, SPJIT_EMULATED_CUDA_DEVICES={}; expected 70, 75, "
                    "80, 86, 89, 90, 100 or 120, and 0 to 16",
                    arch, count));
    return Result::no_device;
  }
  if (count == 0) {
    return Result::no_device;
  }
  for (int i = 0; i < count; ++i) {
    devices_.push_back(std::make_unique<Device>(*architecture));
  }
  initialized_ = true;
  return Result::success;
}

Device* Driver::device(int ordinal) {
  const auto index = static_cast<std::size_t>(ordinal);
  return ordinal >= 0 && index < devices_.size() ? devices_[index].get() : nullptr;
}

Context* Driver::context(const void* handle) {
  for (const auto& device : devices_) {
    if (handle != nullptr && device->context.get() == handle) {
      return device->context.get();
    }
  }
  return nullptr;
}

Context* Driver::current() { return context(current_slot()); }

void Driver::set_current(void* handle) { current_slot() = handle; }

void* Driver::current_handle() { return current_slot(); }

Result Driver::load(const void* image, Module*& loaded) {
  Context* context = current();
  if (image == nullptr || context == nullptr) {
    return image == nullptr ? Result::invalid_value : Result::invalid_context;
  }
  if (is_binary(image)) {
    log("a cubin or fat binary cannot be executed here; load the PTX it was made of");
    return Result::no_binary_for_gpu;
  }
  auto module = std::make_unique<Module>();
  module->device = &context->device;
  try {
    module->program = parse_program(static_cast<const char*>(image), context->device.memory);
  } catch (const PtxError& error) {
    log(error.what());
    return Result::invalid_ptx;
  }
  if (module->program.target > context->device.architecture.arch) {
    log(fmt::format("PTX for sm_{}, but the device is sm_{}", module->program.target,
                    context->device.architecture.arch));
    return Result::invalid_ptx;
  }
  for (const Function& function : module->program.functions) {
    if (function.is_entry) {
      auto kernel = std::make_unique<Kernel>();
      kernel->module = module.get();
      kernel->entry = &function;
      kernel->max_dynamic_shared_bytes =
          std::max(0, 48 * 1024 - static_cast<int>(function.shared_bytes));
      module->kernels.emplace(function.name, std::move(kernel));
    }
  }
  loaded = module.get();
  context->modules.emplace(loaded, std::move(module));
  return Result::success;
}

Kernel* Driver::kernel(Module& module, std::string_view name) {
  const auto found = module.kernels.find(name);
  return found == module.kernels.end() ? nullptr : found->second.get();
}

Module* Driver::find_module(const void* handle) {
  for (const auto& device : devices_) {
    if (device->context == nullptr) {
      continue;
    }
    const auto found = device->context->modules.find(handle);
    if (found != device->context->modules.end()) {
      return found->second.get();
    }
  }
  return nullptr;
}

Kernel* Driver::find_kernel(const void* handle) {
  for (const auto& device : devices_) {
    if (device->context == nullptr) {
      continue;
    }
    for (const auto& [key, module] : device->context->modules) {
      for (const auto& [name, kernel] : module->kernels) {
        if (kernel.get() == handle) {
          return kernel.get();
        }
      }
    }
  }
  return nullptr;
}

Result Driver::check_launch(const Kernel& kernel, const LaunchShape& shape) {
  if (!is_launchable(shape) ||
      shape.dynamic_shared_bytes > static_cast<std::uint32_t>(kernel.max_dynamic_shared_bytes)) {
    log(
        fmt::format("{}: grid {} x {} x {}, block {} x {} x {}, {} bytes of dynamic shared memory: "
                    "beyond what the device or the function's attribute ({} bytes) allows",
                    kernel.entry->name, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
                    shape.block[1], shape.block[2], shape.dynamic_shared_bytes,
                    kernel.max_dynamic_shared_bytes));
    return Result::invalid_value;
  }
  return Result::success;
}

Result Driver::launch(const Kernel& kernel, const LaunchShape& shape,
                      const std::vector<std::uint8_t>& parameters) {
  Module& module = *kernel.module;
  try {
    instructions_ +=
        run_grid(module.program, *kernel.entry, shape, parameters, module.device->memory)
            .instructions;
  } catch (const PtxError& error) {
    log(error.what());
    if (error.kind() == FaultKind::launch_out_of_range) {
      return Result::invalid_value;
    }
    // A launch is asynchronous: what goes wrong while it runs is seen by later calls.
    module.device->context->fault = result_of(error.kind());
  }
  return Result::success;
}

void Driver::log(const std::string& message) {
  last_message_ = message;
  std::fprintf(stderr, "emulated CUDA driver: %s\n", message.c_str());
}

}  // namespace spjit::emulated
