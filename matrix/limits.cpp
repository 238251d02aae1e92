#include "matrix/limits.hpp"

#include <unistd.h>

#include <limits>

namespace spjit {

std::int64_t memory_bytes() noexcept {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::numeric_limits<std::int64_t>::max();
  return pages * page_bytes;
}

}  // namespace spjit
