// Modules, libraries, kernels, launches, occupancy.

#include <algorithm>
#include <cstring>

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

enum JitOption : int { k_error_log = 5, k_error_log_bytes = 6 };
enum FunctionAttribute : int {
  k_max_threads = 0,
  k_shared_bytes = 1,
  k_const_bytes = 2,
  k_local_bytes = 3,
  k_registers = 4,
  k_ptx_version = 5,
  k_binary_version = 6,
  k_max_dynamic_shared = 8,
};

// The driver's message into the caller's buffer, if the options name one.
void hand_out_log(const Driver& driver, unsigned count, const int* options, void* const* values) {
  char* buffer = nullptr;
  std::size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == k_error_log) {
      buffer = static_cast<char*>(values[i]);
    } else if (options[i] == k_error_log_bytes) {
      room = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(values[i]));
    }
  }
  if (buffer != nullptr && room > 0) {
    const std::size_t length = std::min(room - 1, driver.last_message().size());
    std::memcpy(buffer, driver.last_message().data(), length);
    buffer[length] = '\0';
  }
}

Result attribute_of(const Kernel& kernel, int attribute, int* value) {
  switch (attribute) {
    case k_max_threads:
      *value = kernel.max_threads == 0 ? 1024 : kernel.max_threads;
      break;
    case k_shared_bytes:
      *value = kernel.shared_bytes;
      break;
    case k_const_bytes:
      *value = kernel.constant_bytes;
      break;
    case k_local_bytes:
      *value = kernel.local_bytes;
      break;
    case k_registers:
      *value = kernel.registers;
      break;
    case k_ptx_version:
      *value = kernel.ptx_version;
      break;
    case k_binary_version:
      *value = kernel.module->device->architecture.arch;
      break;
    case k_max_dynamic_shared:
      *value = kernel.max_dynamic_shared_bytes;
      break;
    default:
      return Result::invalid_value;
  }
  return Result::success;
}

// A launch's parameters, from either of the two ways to hand them over.
bool gather(const Kernel& kernel, void** values, void** extra, std::vector<std::uint8_t>& bytes) {
  bytes.resize(kernel.parameter_bytes);
  if (values != nullptr) {
    for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
      const KernelParameter& parameter = kernel.parameters[i];
      std::memcpy(bytes.data() + parameter.offset, values[i], parameter.size_bytes);
    }
    return extra == nullptr;
  }
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (; extra != nullptr && *extra != nullptr; extra += 2) {
    const auto key = reinterpret_cast<std::uintptr_t>(*extra);
    if (key == 1) {  // CU_LAUNCH_PARAM_BUFFER_POINTER
      buffer = extra[1];
    } else if (key == 2) {  // CU_LAUNCH_PARAM_BUFFER_SIZE
      size = *static_cast<const std::size_t*>(extra[1]);
    }
  }
  if (size != bytes.size()) {
    return false;
  }
  if (size != 0) {
    std::memcpy(bytes.data(), buffer, size);
  }
  return true;
}

int launch(const void* function, const LaunchConfig& config, void** values, void** extra) {
  return with_context([&](Driver& driver, Context& context) {
    const Kernel* kernel = driver.find_kernel(function);
    // A kernel belongs to the context its module was loaded in.
    if (kernel == nullptr || kernel->module->device != &context.device ||
        !is_stream(context, config.stream)) {
      return Result::invalid_handle;
    }
    std::vector<std::uint8_t> parameters;
    if (!gather(*kernel, values, extra, parameters)) {
      return Result::invalid_value;
    }
    LaunchShape shape;
    std::copy_n(config.grid, 3, shape.grid.begin());
    std::copy_n(config.block, 3, shape.block.begin());
    shape.dynamic_shared_bytes = config.dynamic_shared_bytes;
    const Result result = driver.check_launch(*kernel, shape);
    if (result != Result::success) {
      return result;
    }
    return submit(driver, context, config.stream, [=](Driver& running) {
      const Kernel* still_there = running.find_kernel(function);
      return still_there == nullptr ? Result::invalid_handle
                                    : running.launch(*still_there, shape, parameters);
    });
  });
}

// Registers are given to warps in units of 256, by four schedulers with a quarter of them each.
int active_blocks(const Kernel& kernel, int threads, std::size_t dynamic_shared) {
  constexpr int unit = 256;
  constexpr int schedulers = 4;
  constexpr int registers_of_a_scheduler = 65536 / schedulers;
  const Architecture& device = kernel.module->device->architecture;
  const int warps = (threads + 31) / 32;
  const int warp_registers = (kernel.registers * 32 + unit - 1) / unit * unit;
  const int by_registers = registers_of_a_scheduler / warp_registers * schedulers / warps;
  const int shared =
      kernel.shared_bytes + static_cast<int>(dynamic_shared) + device.shared_reserved_bytes;
  const int by_shared = shared == 0 ? device.blocks_per_sm : device.shared_per_sm_bytes / shared;
  return std::min(
      {device.blocks_per_sm, device.threads_per_sm / (warps * 32), by_registers, by_shared});
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                                    void** values) {
  return with_uncaptured([&](Driver& driver, Context&) {
    Module* loaded = nullptr;
    const Result result = driver.load(image, loaded);
    if (result != Result::success) {
      hand_out_log(driver, count, options, values);
    }
    *module = loaded;
    return result;
  });
}

SPJIT_EXPORT int cuModuleLoadData(void** module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

SPJIT_EXPORT int cuModuleUnload(void* module) {
  return with_uncaptured([&](Driver&, Context& context) {
    return context.modules.erase(module) == 1 ? Result::success : Result::invalid_handle;
  });
}

SPJIT_EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  return with_context([&](Driver& driver, Context&) {
    Module* found = driver.find_module(module);
    *function = found == nullptr ? nullptr : Driver::kernel(*found, name);
    if (found == nullptr) {
      return Result::invalid_handle;
    }
    return *function == nullptr ? Result::not_found : Result::success;
  });
}

SPJIT_EXPORT int cuModuleGetGlobal_v2(DevicePointer* address, std::size_t* bytes, void* module,
                                      const char* name) {
  return with_context([&](Driver& driver, Context&) {
    const Module* found = driver.find_module(module);
    if (found == nullptr) {
      return Result::invalid_handle;
    }
    const std::optional<NamedMemory> variable = find_variable(*found, name);
    if (variable) {
      if (address != nullptr) {
        *address = variable->address;
      }
      if (bytes != nullptr) {
        *bytes = variable->size;
      }
      return Result::success;
    }
    return Result::not_found;
  });
}

// NOLINTNEXTLINE(readability-function-size): the signature is CUDA's
SPJIT_EXPORT int cuLibraryLoadData(void** library, const void* image, int* options, void** values,
                                   unsigned count, int* /*library_options*/,
                                   void** /*library_values*/, unsigned /*library_count*/) {
  return cuModuleLoadDataEx(library, image, count, options, values);
}

SPJIT_EXPORT int cuLibraryUnload(void* library) { return cuModuleUnload(library); }

SPJIT_EXPORT int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  return cuModuleGetFunction(kernel, library, name);
}

SPJIT_EXPORT int cuKernelGetFunction(void** function, void* kernel) {
  return with_context([&](Driver& driver, Context&) {
    *function = driver.find_kernel(kernel);
    return *function == nullptr ? Result::invalid_handle : Result::success;
  });
}

SPJIT_EXPORT int cuFuncGetAttribute(int* value, int attribute, void* function) {
  return with_context([&](Driver& driver, Context&) {
    const Kernel* kernel = driver.find_kernel(function);
    return kernel == nullptr ? Result::invalid_handle : attribute_of(*kernel, attribute, value);
  });
}

SPJIT_EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  return with_context([&](Driver& driver, Context&) {
    Kernel* kernel = driver.find_kernel(function);
    if (kernel == nullptr) {
      return Result::invalid_handle;
    }
    const int most =
        kernel->module->device->architecture.shared_per_block_optin_bytes - kernel->shared_bytes;
    if (attribute != k_max_dynamic_shared || value < 0 || value > most) {
      return Result::invalid_value;
    }
    kernel->max_dynamic_shared_bytes = value;
    return Result::success;
  });
}

SPJIT_EXPORT int cuFuncLoad(void* function) {
  return with_uncaptured([&](Driver& driver, Context&) {
    return driver.find_kernel(function) == nullptr ? Result::invalid_handle : Result::success;
  });
}

// NOLINTNEXTLINE(readability-function-size): the signature is CUDA's
SPJIT_EXPORT int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z,
                                unsigned dynamic_shared_bytes, void* stream, void** parameters,
                                void** extra) {
  const LaunchConfig config{{grid_x, grid_y, grid_z},
                            {block_x, block_y, block_z},
                            dynamic_shared_bytes,
                            stream,
                            nullptr,
                            0};
  return launch(function, config, parameters, extra);
}

SPJIT_EXPORT int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** parameters,
                                  void** extra) {
  if (config->attribute_count != 0) {
    return static_cast<int>(Result::not_supported);
  }
  return launch(function, *config, parameters, extra);
}

SPJIT_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function,
                                                             int threads,
                                                             std::size_t dynamic_shared) {
  return with_context([&](Driver& driver, Context&) {
    const Kernel* kernel = driver.find_kernel(function);
    if (kernel == nullptr || threads < 1 || threads > 1024) {
      return kernel == nullptr ? Result::invalid_handle : Result::invalid_value;
    }
    *blocks = active_blocks(*kernel, threads, dynamic_shared);
    return Result::success;
  });
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
