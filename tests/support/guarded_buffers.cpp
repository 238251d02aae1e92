#include "tests/support/guarded_buffers.hpp"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

namespace spjit::testing_support {
namespace {

/// What operator new[] and delete[] share.
struct Guarding {
  std::mutex mutex;
  std::optional<GuardPlacement> placement;
  std::map<void*, std::unique_ptr<GuardedPages>> arrays;
  std::atomic<std::int64_t> made = 0;
};

Guarding& guarding() {
  // Never destroyed: arrays may be freed after everything else.
  static auto* const the_guarding = new Guarding;
  return *the_guarding;
}

/// Null where arrays are not guarded.
void* guarded_array(std::size_t size, std::align_val_t alignment) {
  Guarding& now = guarding();
  const std::lock_guard lock(now.mutex);
  if (!now.placement) return nullptr;
  // At least a byte: every array has an address of its own.
  auto pages = std::make_unique<GuardedPages>(size == 0 ? 1 : size, *now.placement,
                                              static_cast<std::size_t>(alignment));
  void* const array = pages->bytes().data();
  now.arrays.emplace(array, std::move(pages));
  ++now.made;
  return array;
}

bool free_guarded(void* array) {
  Guarding& now = guarding();
  const std::lock_guard lock(now.mutex);
  const auto found = now.arrays.find(array);
  if (found == now.arrays.end()) return false;
  if (!found->second->intact()) {
    static_cast<void>(std::fputs("a guarded array: something was written beside it\n", stderr));
    std::abort();
  }
  now.arrays.erase(found);
  return true;
}

}  // namespace

GuardedBuffers::GuardedBuffers(GuardPlacement placement) {
  const std::lock_guard lock(guarding().mutex);
  guarding().placement = placement;
}

GuardedBuffers::~GuardedBuffers() {
  const std::lock_guard lock(guarding().mutex);
  guarding().placement.reset();
}

std::int64_t GuardedBuffers::made() noexcept { return guarding().made; }

}  // namespace spjit::testing_support

using spjit::testing_support::free_guarded;
using spjit::testing_support::guarded_array;

void* operator new[](std::size_t size, std::align_val_t alignment) {
  if (void* array = guarded_array(size, alignment)) return array;
  return ::operator new(size, alignment);
}

void operator delete[](void* array, std::align_val_t alignment) noexcept {
  if (!free_guarded(array)) ::operator delete(array, alignment);
}

void operator delete[](void* array, std::size_t /*size*/, std::align_val_t alignment) noexcept {
  if (!free_guarded(array)) ::operator delete(array, alignment);
}
