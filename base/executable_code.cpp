#include "base/executable_code.hpp"

#include <algorithm>

#include "spjit/error.hpp"

namespace spjit {

ExecutableCode::ExecutableCode(std::span<const std::byte> code,
                               std::span<const std::byte> read_only_data)
    : code_size_(code.size()), data_size_(read_only_data.size()) {
  if (code.empty()) {
    throw InvalidArgument("executable code of 0 bytes: expected at least one instruction");
  }
  const std::size_t offset = data_offset(code.size());
  pages_ = PageMapping(offset + read_only_data.size());
  const std::span<std::byte> bytes = pages_.bytes();
  std::ranges::copy(code, bytes.begin());
  std::ranges::copy(read_only_data, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  pages_.protect(offset, bytes.size() - offset, PageAccess::read_only);
  pages_.protect(0, offset, PageAccess::read_execute);
}

std::span<const std::byte> ExecutableCode::code() const noexcept {
  return pages_.bytes().first(code_size_);
}

std::span<const std::byte> ExecutableCode::data() const noexcept {
  if (data_size_ == 0) return {};
  return pages_.bytes().subspan(data_offset(code_size_), data_size_);
}

}  // namespace spjit
