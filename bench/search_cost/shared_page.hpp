#pragma once

/// @file
/// A value that a process and the children it forks both see.

#include <sys/mman.h>

#include <memory>
#include <new>
#include <type_traits>

#include "spjit/error.hpp"

namespace spjit::bench {

/// Memory that keeps the writes of a child that is killed. Made before the fork. Two processes may
/// use it at once only as far as T allows two threads to.
template <typename T>
class SharedPage {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  /// Throws Error if there is no memory.
  SharedPage() : page_(map()) {}

  T* operator->() const noexcept { return page_.get(); }
  T& operator*() const noexcept { return *page_; }

 private:
  struct Unmap {
    void operator()(T* page) const noexcept { ::munmap(page, sizeof(T)); }
  };

  static std::unique_ptr<T, Unmap> map() {
    void* page =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw Error("there is no memory to share with a child process");
    return std::unique_ptr<T, Unmap>(new (page) T());
  }

  std::unique_ptr<T, Unmap> page_;
};

}  // namespace spjit::bench
