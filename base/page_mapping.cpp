#include "base/page_mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {

PageMapping::PageMapping(std::size_t bytes)
    : PageMapping(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) {}

PageMapping PageMapping::of_file(int descriptor, std::size_t bytes, std::int64_t offset) {
  PageMapping pages(bytes, PROT_READ, MAP_PRIVATE, descriptor, offset);
  // Small folios cost unrolled code 5 % when cold. Pages that are in memory stay as they are.
  static_cast<void>(::madvise(pages.begin_, pages.size_, MADV_HUGEPAGE));
  if (::madvise(pages.begin_, pages.size_, MADV_POPULATE_READ) != 0) {
    throw NoPages(
        fmt::format("cannot read the {} bytes of a file into mapped pages: {}; copy them instead",
                    bytes, std::strerror(errno)));
  }
  return pages;
}

PageMapping::PageMapping(std::size_t bytes, int protection, int flags, int descriptor,
                         std::int64_t offset) {
  if (bytes == 0) {
    throw InvalidArgument("page mapping of 0 bytes: expected at least 1");
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) {
    throw InvalidArgument(fmt::format("page mapping of {} bytes: too large", bytes));
  }
  const std::size_t size = round_up(bytes);
  void* begin = ::mmap(nullptr, size, protection, flags, descriptor, offset);
  if (begin == MAP_FAILED) {
    throw NoPages(
        fmt::format("cannot map {} bytes for code: {}; free memory or raise the limit on "
                    "address space (ulimit -v)",
                    size, std::strerror(errno)));
  }
  begin_ = static_cast<std::byte*>(begin);
  size_ = size;
}

PageMapping::PageMapping(PageMapping&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageMapping& PageMapping::operator=(PageMapping&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(size_, other.size_);
  return *this;
}

PageMapping::~PageMapping() {
  if (begin_ != nullptr) ::munmap(begin_, size_);
}

void PageMapping::protect(std::size_t offset, std::size_t size, PageAccess access) {
  const std::size_t page = page_size();
  if (offset % page != 0 || size % page != 0 || offset > size_ || size > size_ - offset) {
    throw InvalidArgument(fmt::format(
        "cannot protect bytes [{}, {} + {}) of a mapping of {} bytes: expected whole pages of {} "
        "bytes inside it",
        offset, offset, size, size_, page));
  }
  if (size == 0) return;
  std::byte* begin = begin_ + offset;
  const bool execute = access == PageAccess::read_execute;
  if (::mprotect(begin, size, PROT_READ | (execute ? PROT_EXEC : 0)) != 0) {
    throw NoPages(
        fmt::format("cannot make {} bytes {}: {}; a security policy may forbid programs "
                    "to generate code",
                    size, execute ? "executable" : "read-only", std::strerror(errno)));
  }
  if (execute) {
    // Does nothing on x86; elsewhere the instruction cache has not seen the stores.
    __builtin___clear_cache(reinterpret_cast<char*>(begin), reinterpret_cast<char*>(begin + size));
  }
}

std::size_t PageMapping::page_size() noexcept {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t PageMapping::round_up(std::size_t bytes) noexcept {
  const std::size_t page = page_size();
  return (bytes + page - 1) / page * page;
}

}  // namespace spjit
