#include "tests/support/allocation_counter.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): operator new has no state
std::atomic<std::int64_t> allocation_count = 0;

}  // namespace

void* operator new(std::size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t whole = (std::max<std::size_t>(size, 1) + unit - 1) / unit * unit;
  if (void* memory = std::aligned_alloc(unit, whole)) return memory;
  throw std::bad_alloc();
}

// A sanitizer brings its own of whatever is not replaced, and then new and delete do not match.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}

void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace spjit::testing_support {

std::int64_t allocations_so_far() noexcept {
  return allocation_count.load(std::memory_order_relaxed);
}

}  // namespace spjit::testing_support
