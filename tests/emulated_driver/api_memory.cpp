// Memory, streams, events. Everything runs where it is called; streams and events only have to
// exist.

#include <cstring>

#include "emulated_driver/driver.hpp"
#include "spjit/export.hpp"

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

namespace {

using namespace spjit::emulated;

// What a copy to the host gives for bytes that nothing has written: a NaN in every float type.
constexpr std::uint8_t k_poison = 0xff;

bool is_stream(const Context& context, const void* stream) {
  // Null, and CUDA's legacy and per-thread default streams, need not be created.
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 || context.streams.contains(stream);
}

// Bytes `[address, address + size)` of an allocation of the context's device, for `use`.
template <typename Use>
int with_bytes(DevicePointer address, std::size_t size, const void* stream, Use&& use) {
  return with_context([&](Driver& driver, Context& context) {
    if (!is_stream(context, stream)) {
      return Result::invalid_handle;
    }
    if (size == 0) {
      return Result::success;
    }
    Allocation* found = context.device.memory.find(address, size);
    if (found == nullptr) {
      driver.log("a copy or fill outside of every allocation");
      return Result::invalid_value;
    }
    use(*found, address - found->address);
    return Result::success;
  });
}

int copy_in(DevicePointer to, const void* from, std::size_t size, const void* stream) {
  return with_bytes(to, size, stream, [&](Allocation& memory, std::uint64_t offset) {
    memory.contents.write(offset, {static_cast<const std::uint8_t*>(from), size});
  });
}

int copy_out(void* to, DevicePointer from, std::size_t size, const void* stream) {
  return with_bytes(from, size, stream, [&](Allocation& memory, std::uint64_t offset) {
    auto* bytes = static_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < size; ++i) {
      const bool is_defined = memory.contents.defined()[offset + i] != 0;
      bytes[i] = is_defined ? memory.contents.bytes()[offset + i] : k_poison;
    }
  });
}

int copy_within(DevicePointer to, DevicePointer from, std::size_t size, const void* stream) {
  return with_context([&](Driver& driver, Context& context) {
    GlobalMemory& memory = context.device.memory;
    Allocation* source = memory.find(from, size);
    Allocation* target = memory.find(to, size);
    if (!is_stream(context, stream) || source == nullptr || target == nullptr) {
      driver.log("a copy outside of every allocation");
      return Result::invalid_value;
    }
    const std::uint64_t begin = from - source->address;
    const std::uint64_t target_begin = to - target->address;
    std::memmove(target->contents.bytes() + target_begin, source->contents.bytes() + begin, size);
    std::memmove(target->contents.defined() + target_begin, source->contents.defined() + begin,
                 size);
    return Result::success;
  });
}

int fill(DevicePointer to, std::uint32_t value, std::size_t count, std::size_t unit,
         const void* stream) {
  if (to % unit != 0) {
    return static_cast<int>(Result::invalid_value);
  }
  return with_bytes(to, count * unit, stream, [&](Allocation& memory, std::uint64_t offset) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(memory.contents.bytes() + offset + i * unit, &value, unit);
    }
    std::memset(memory.contents.defined() + offset, 1, count * unit);
  });
}

}  // namespace

extern "C" {

SPJIT_EXPORT int cuMemAlloc_v2(DevicePointer* address, std::size_t bytes) {
  return with_context([&](Driver&, Context& context) {
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
  return with_context([&](Driver&, Context& context) {
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
  return copy_in(to, from, bytes, nullptr);
}

SPJIT_EXPORT int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                                      void* stream) {
  return copy_in(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  return copy_out(to, from, bytes, nullptr);
}

SPJIT_EXPORT int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes,
                                      void* stream) {
  return copy_out(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, std::size_t bytes) {
  return copy_within(to, from, bytes, nullptr);
}

SPJIT_EXPORT int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, std::size_t bytes,
                                      void* stream) {
  return copy_within(to, from, bytes, stream);
}

SPJIT_EXPORT int cuMemsetD8_v2(DevicePointer to, unsigned char value, std::size_t count) {
  return fill(to, value, count, 1, nullptr);
}

SPJIT_EXPORT int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count,
                                 void* stream) {
  return fill(to, value, count, 1, stream);
}

SPJIT_EXPORT int cuMemsetD32_v2(DevicePointer to, unsigned value, std::size_t count) {
  return fill(to, value, count, 4, nullptr);
}

SPJIT_EXPORT int cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count,
                                  void* stream) {
  return fill(to, value, count, 4, stream);
}

SPJIT_EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  return with_context([&](Driver&, Context& context) {
    if (flags > 1) {
      return Result::invalid_value;
    }
    auto made = std::make_unique<Stream>();
    *stream = made.get();
    context.streams.emplace(made.get(), std::move(made));
    return Result::success;
  });
}

SPJIT_EXPORT int cuStreamDestroy_v2(void* stream) {
  return with_context([&](Driver&, Context& context) {
    return context.streams.erase(stream) == 1 ? Result::success : Result::invalid_handle;
  });
}

SPJIT_EXPORT int cuStreamSynchronize(void* stream) {
  return with_context([&](Driver&, Context& context) {
    return is_stream(context, stream) ? Result::success : Result::invalid_handle;
  });
}

SPJIT_EXPORT int cuEventCreate(void** event, unsigned /*flags*/) {
  return with_context([&](Driver&, Context& context) {
    auto made = std::make_unique<Event>();
    *event = made.get();
    context.events.emplace(made.get(), std::move(made));
    return Result::success;
  });
}

SPJIT_EXPORT int cuEventRecord(void* event, void* stream) {
  return with_context([&](Driver&, Context& context) {
    const auto found = context.events.find(event);
    if (found == context.events.end() || !is_stream(context, stream)) {
      return Result::invalid_handle;
    }
    found->second->recorded = std::chrono::steady_clock::now();
    found->second->is_recorded = true;
    return Result::success;
  });
}

SPJIT_EXPORT int cuEventSynchronize(void* event) {
  return with_context([&](Driver&, Context& context) {
    return context.events.contains(event) ? Result::success : Result::invalid_handle;
  });
}

/// Milliseconds of the host's clock: of the interpreter, so of no use as a measurement.
SPJIT_EXPORT int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  return with_context([&](Driver&, Context& context) {
    const auto first = context.events.find(from);
    const auto last = context.events.find(to);
    if (first == context.events.end() || last == context.events.end() ||
        !first->second->is_recorded || !last->second->is_recorded) {
      return Result::invalid_handle;
    }
    const auto span = last->second->recorded - first->second->recorded;
    *milliseconds = std::chrono::duration<float, std::milli>(span).count();
    return Result::success;
  });
}

SPJIT_EXPORT int cuEventDestroy_v2(void* event) {
  return with_context([&](Driver&, Context& context) {
    return context.events.erase(event) == 1 ? Result::success : Result::invalid_handle;
  });
}

}  // extern "C"

// NOLINTEND(readability-identifier-naming)
