// Devices, primary contexts, errors.

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

struct Attribute {
  int number;  // CUdevice_attribute
  int value;
};

int attribute_of(const Architecture& device, int number, int* value) {
  const Attribute k_attributes[] = {{1, 1024},
                                    {2, 1024},
                                    {3, 1024},
                                    {4, 64},
                                    {5, 0x7fffffff},
                                    {6, 65535},
                                    {7, 65535},
                                    {8, 48 * 1024},
                                    {9, 65536},
                                    {10, 32},
                                    {12, 65536},
                                    {13, 1'000'000},
                                    {16, device.multiprocessors},
                                    {18, 0},
                                    {20, 0},
                                    {38, device.l2_bytes},
                                    {39, device.threads_per_sm},
                                    {41, 1},
                                    {75, device.arch / 10},
                                    {76, device.arch % 10},
                                    {81, device.shared_per_sm_bytes},
                                    {82, 65536},
                                    {97, device.shared_per_block_optin_bytes},
                                    {106, device.blocks_per_sm},
                                    {111, device.shared_reserved_bytes}};
  for (const Attribute& one : k_attributes) {
    if (one.number == number) {
      *value = one.value;
      return static_cast<int>(Result::success);
    }
  }
  return static_cast<int>(Result::invalid_value);
}

struct ErrorName {
  Result result;
  const char* name;
  const char* text;
};

constexpr ErrorName k_errors[] = {
    {Result::success, "CUDA_SUCCESS", "no error"},
    {Result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Result::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {Result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
    {Result::invalid_ptx, "CUDA_ERROR_INVALID_PTX", "a PTX compilation failed"},
    {Result::unsupported_ptx_version, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the PTX version is not supported"},
    {Result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Result::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "not possible in the current state"},
    {Result::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {Result::not_ready, "CUDA_ERROR_NOT_READY", "not ready"},
    {Result::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {Result::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {Result::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out"},
    {Result::illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction"},
    {Result::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {Result::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Result::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {Result::stream_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {Result::stream_capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {Result::stream_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {Result::captured_event, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {Result::stream_capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"}};

const ErrorName* find_error(int result) {
  for (const ErrorName& error : k_errors) {
    if (static_cast<int>(error.result) == result) {
      return &error;
    }
  }
  return nullptr;
}

template <typename Use>
int with_device(int ordinal, Use&& use) {
  return with_driver([&](Driver& driver) {
    Device* device = driver.device(ordinal);
    return device == nullptr ? Result::invalid_device : use(*device);
  });
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuInit(unsigned flags) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  return static_cast<int>(flags == 0 ? driver.initialize() : Result::invalid_value);
}

SPJIT_EXPORT int cuDriverGetVersion(int* version) {
  *version = 13000;
  return static_cast<int>(Result::success);
}

SPJIT_EXPORT int cuDeviceGetCount(int* count) {
  return with_driver([&](Driver& driver) {
    *count = static_cast<int>(driver.device_count());
    return Result::success;
  });
}

SPJIT_EXPORT int cuDeviceGet(int* device, int ordinal) {
  return with_device(ordinal, [&](Device&) {
    *device = ordinal;
    return Result::success;
  });
}

SPJIT_EXPORT int cuDeviceGetName(char* name, int length, int ordinal) {
  return with_device(ordinal, [&](Device& device) {
    if (length < 1) {
      return Result::invalid_value;
    }
    const auto room = static_cast<std::size_t>(length) - 1;
    const auto end = fmt::format_to_n(name, room, "emulated {}", device.architecture.card);
    *end.out = '\0';
    return Result::success;
  });
}

SPJIT_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int ordinal) {
  return with_device(ordinal, [&](Device& device) {
    return static_cast<Result>(attribute_of(device.architecture, attribute, value));
  });
}

SPJIT_EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int ordinal) {
  return with_device(ordinal, [&](Device& device) {
    *bytes = device.memory.capacity_bytes();
    return Result::success;
  });
}

SPJIT_EXPORT int cuDevicePrimaryCtxRetain(void** context, int ordinal) {
  return with_device(ordinal, [&](Device& device) {
    if (device.context == nullptr) {
      device.context = std::make_unique<Context>(device);
    }
    ++device.retained;
    *context = device.context.get();
    return Result::success;
  });
}

SPJIT_EXPORT int cuDevicePrimaryCtxRelease_v2(int ordinal) {
  return with_device(ordinal, [&](Device& device) {
    if (device.retained == 0) {
      return Result::invalid_context;
    }
    if (--device.retained == 0) {
      device.context.reset();
      device.memory = GlobalMemory(device.memory.capacity_bytes(), device.memory.base());
    }
    return Result::success;
  });
}

SPJIT_EXPORT int cuCtxSetCurrent(void* context) {
  return with_driver([&](Driver& driver) {
    if (context != nullptr && driver.context(context) == nullptr) {
      return Result::invalid_context;
    }
    Driver::set_current(context);
    return Result::success;
  });
}

SPJIT_EXPORT int cuCtxGetCurrent(void** context) {
  return with_driver([&](Driver&) {
    *context = Driver::current_handle();
    return Result::success;
  });
}

SPJIT_EXPORT int cuCtxGetDevice(int* device) {
  return with_driver([&](Driver& driver) {
    const Context* context = driver.current();
    for (std::size_t i = 0; i < driver.device_count(); ++i) {
      if (context != nullptr && driver.device(static_cast<int>(i)) == &context->device) {
        *device = static_cast<int>(i);
      }
    }
    return context == nullptr ? Result::invalid_context : Result::success;
  });
}

SPJIT_EXPORT int cuCtxSynchronize() {
  return with_context([](Driver&, Context& context) { return wait_for_all(context); });
}

SPJIT_EXPORT int cuGetErrorName(int result, const char** name) {
  const ErrorName* error = find_error(result);
  *name = error == nullptr ? nullptr : error->name;
  return static_cast<int>(error == nullptr ? Result::invalid_value : Result::success);
}

SPJIT_EXPORT int cuGetErrorString(int result, const char** text) {
  const ErrorName* error = find_error(result);
  *text = error == nullptr ? nullptr : error->text;
  return static_cast<int>(error == nullptr ? Result::invalid_value : Result::success);
}

// The versioned name first, as the real one does for callers of a current CUDA.
SPJIT_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int /*version*/,
                                     std::uint64_t /*flags*/, int* status) {
  Dl_info self{};
  *function = nullptr;
  if (dladdr(&k_errors, &self) != 0) {
    void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = dlsym(library, fmt::format("{}_v2", symbol).c_str());
    *function = *function == nullptr ? dlsym(library, symbol) : *function;
    dlclose(library);
  }
  if (status != nullptr) {
    *status = *function == nullptr ? 1 : 0;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  }
  return static_cast<int>(*function == nullptr ? Result::not_found : Result::success);
}

/// Not CUDA's: the last line that was logged, and the instructions executed so far. The text lives
/// until the next line is logged.
SPJIT_EXPORT const char* spjit_emulated_message() {
  return Driver::instance().last_message().c_str();
}

SPJIT_EXPORT std::uint64_t spjit_emulated_instructions() {
  return Driver::instance().instructions();
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
