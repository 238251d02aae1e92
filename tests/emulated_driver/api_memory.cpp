// Memory. Everything runs where it is called, unless its stream is being captured.

#include <cstring>
#include <optional>

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

// What a copy to the host gives for bytes that nothing has written: a NaN in every float type.
constexpr std::uint8_t k_poison = 0xff;

// None for a synchronous call.
using StreamOrNone = std::optional<const void*>;

// `work(memory)` on the device's memory, now or in the order of a stream.
template <typename Work>
Result do_work(Driver& driver, Context& context, StreamOrNone stream, Work work) {
  GlobalMemory* memory = &context.device.memory;
  if (!stream) {
    const Result captured = unsafe_call(context);
    return captured == Result::success
               ? submit(driver, context, nullptr, [=](Driver&) { return work(*memory); })
               : captured;
  }
  return submit(driver, context, *stream, [=](Driver&) { return work(*memory); });
}

// `use(allocation, offset)` for bytes `[address, address + size)` of the context's device.
template <typename Use>
int with_bytes(DevicePointer address, std::size_t size, StreamOrNone stream, Use use) {
  return with_context([&](Driver& driver, Context& context) {
    if (stream && !is_stream(context, *stream)) {
      return Result::invalid_handle;
    }
    if (size != 0 && context.device.memory.find(address, size) == nullptr) {
      driver.log("a copy or fill outside of every allocation");
      return Result::invalid_value;
    }
    return do_work(driver, context, stream, [=](GlobalMemory& memory) {
      Allocation* found = size == 0 ? nullptr : memory.find(address, size);
      if (found != nullptr) {
        use(*found, address - found->address);
      }
      return size == 0 || found != nullptr ? Result::success : Result::invalid_value;
    });
  });
}

int copy_in(DevicePointer to, const void* from, std::size_t size, StreamOrNone stream) {
  return with_bytes(to, size, stream, [=](Allocation& memory, std::uint64_t offset) {
    memory.contents.write(offset, {static_cast<const std::uint8_t*>(from), size});
  });
}

int copy_out(void* to, DevicePointer from, std::size_t size, StreamOrNone stream) {
  return with_bytes(from, size, stream, [=](Allocation& memory, std::uint64_t offset) {
    auto* bytes = static_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < size; ++i) {
      const bool is_defined = memory.contents.defined()[offset + i] != 0;
      bytes[i] = is_defined ? memory.contents.bytes()[offset + i] : k_poison;
    }
  });
}

Result copy_bytes(GlobalMemory& memory, DevicePointer to, DevicePointer from, std::size_t size) {
  Allocation* source = memory.find(from, size);
  Allocation* target = memory.find(to, size);
  if (source == nullptr || target == nullptr) {
    return Result::invalid_value;
  }
  const std::uint64_t begin = from - source->address;
  const std::uint64_t target_begin = to - target->address;
  std::memmove(target->contents.bytes() + target_begin, source->contents.bytes() + begin, size);
  std::memmove(target->contents.defined() + target_begin, source->contents.defined() + begin, size);
  return Result::success;
}

int copy_within(DevicePointer to, DevicePointer from, std::size_t size, StreamOrNone stream) {
  return with_context([&](Driver& driver, Context& context) {
    GlobalMemory& known = context.device.memory;
    const bool is_known = known.find(from, size) != nullptr && known.find(to, size) != nullptr;
    if (!is_known || (stream && !is_stream(context, *stream))) {
      driver.log("a copy outside of every allocation, or on no stream");
      return Result::invalid_value;
    }
    return do_work(driver, context, stream,
                   [=](GlobalMemory& memory) { return copy_bytes(memory, to, from, size); });
  });
}

int fill(DevicePointer to, std::uint32_t value, std::size_t count, std::size_t unit,
         StreamOrNone stream) {
  if (to % unit != 0) {
    return static_cast<int>(Result::invalid_value);
  }
  return with_bytes(to, count * unit, stream, [=](Allocation& memory, std::uint64_t offset) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(memory.contents.bytes() + offset + i * unit, &value, unit);
    }
    std::memset(memory.contents.defined() + offset, 1, count * unit);
  });
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuMemAlloc_v2(DevicePointer* address, std::size_t bytes) {
  return with_uncaptured([&](Driver&, Context& context) {
    if (bytes == 0) {
      return Result::invalid_value;
    }
    const Allocation* made = context.device.memory.allocate(bytes);
    if (made == nullptr) {
      return Result::out_of_memory;
    }
    *address = made->address;
    return Result::success;
  });
}

SPJIT_EXPORT int cuMemFree_v2(DevicePointer address) {
  return with_uncaptured([&](Driver&, Context& context) {
    return address == 0 || context.device.memory.free(address) ? Result::success
                                                               : Result::invalid_value;
  });
}

SPJIT_EXPORT int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return with_context([&](Driver&, Context& context) {
    const GlobalMemory& memory = context.device.memory;
    *free_bytes = memory.capacity_bytes() - memory.used_bytes();
    *total_bytes = memory.capacity_bytes();
    return Result::success;
  });
}

SPJIT_EXPORT int cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
  return copy_in(to, from, bytes, std::nullopt);
}

SPJIT_EXPORT int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                                      void* stream) {
  return copy_in(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  return copy_out(to, from, bytes, std::nullopt);
}

SPJIT_EXPORT int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes,
                                      void* stream) {
  return copy_out(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return copy_within(to, from, bytes, std::nullopt);
}

SPJIT_EXPORT int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                                      void* stream) {
  return copy_within(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t count) {
  return fill(to, value, count, 1, std::nullopt);
}

SPJIT_EXPORT int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count,
                                 void* stream) {
  return fill(to, value, count, 1, stream);
}

SPJIT_EXPORT int cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  return fill(to, value, count, 4, std::nullopt);
}

SPJIT_EXPORT int cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count,
                                  void* stream) {
  return fill(to, value, count, 4, stream);
}

/// CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL alone.
SPJIT_EXPORT int cuPointerGetAttribute(void* value, int attribute, DevicePointer address) {
  constexpr int k_device_ordinal = 9;
  return with_driver([&](Driver& driver) {
    if (attribute != k_device_ordinal) {
      driver.log("an attribute of a pointer that is not emulated");
      return Result::not_supported;
    }
    for (std::size_t i = 0; i < driver.device_count(); ++i) {
      const int ordinal = static_cast<int>(i);
      if (driver.device(ordinal)->memory.find(address) != nullptr) {
        std::memcpy(value, &ordinal, sizeof(ordinal));
        return Result::success;
      }
    }
    return Result::invalid_value;
  });
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
