#include "tests/fuzz/memory_meter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPJIT_HAS_MALLOC_HOOKS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SPJIT_HAS_MALLOC_HOOKS 1
#endif

#if !defined(SPJIT_HAS_MALLOC_HOOKS)
#include <malloc.h>
#elif __has_include(<sanitizer/allocator_interface.h>)
#include <sanitizer/allocator_interface.h>
#else
// gcc has the functions and not the header.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*after_malloc)(const volatile void*,
                                                                   std::size_t),
                                              void (*before_free)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* memory);
}
#endif

namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): the heap is global
std::atomic<std::int64_t> held_bytes = 0;
std::atomic<std::int64_t> most_bytes = 0;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void took(std::size_t bytes) {
  const std::int64_t held = held_bytes += static_cast<std::int64_t>(bytes);
  std::int64_t most = most_bytes;
  while (held > most && !most_bytes.compare_exchange_weak(most, held)) {
  }
}

void gave_back(std::size_t bytes) { held_bytes -= static_cast<std::int64_t>(bytes); }

}  // namespace

#if defined(SPJIT_HAS_MALLOC_HOOKS)

namespace {

void after_malloc(const volatile void* /*memory*/, std::size_t bytes) { took(bytes); }

void before_free(const volatile void* memory) {
  if (memory != nullptr) gave_back(__sanitizer_get_allocated_size(memory));
}

[[maybe_unused]] const int hooks_installed =
    __sanitizer_install_malloc_and_free_hooks(after_malloc, before_free);

}  // namespace

#else

namespace {

void* counted(void* memory) noexcept {
  if (memory != nullptr) took(::malloc_usable_size(memory));
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) gave_back(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* memory = counted(std::malloc(size == 0 ? 1 : size))) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t whole = (size + unit - 1) / unit * unit;
  if (void* memory = counted(std::aligned_alloc(unit, whole == 0 ? unit : whole))) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return counted(std::malloc(size == 0 ? 1 : size));
}

void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { release(memory); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { release(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  release(memory);
}

#endif

namespace spjit::fuzz {

MemoryMeter::MemoryMeter() : start_bytes_(held_bytes) { most_bytes = start_bytes_; }

std::int64_t MemoryMeter::peak_bytes() const { return most_bytes - start_bytes_; }

}  // namespace spjit::fuzz
