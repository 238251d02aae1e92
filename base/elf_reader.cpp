#include "base/elf_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spjit {

std::span<const std::byte> ElfReader::slice(std::span<const std::byte> bytes, std::uint64_t offset,
                                            std::uint64_t count, std::string_view what) const {
  if (offset > bytes.size() || count > bytes.size() - offset) {
    throw error_(fmt::format("{} at byte {} with {} bytes reaches past the end ({} bytes)", what,
                             offset, count, bytes.size()));
  }
  return bytes.subspan(offset, count);
}

std::string_view ElfNames::read(std::span<const std::byte> strings, std::uint64_t offset,
                                std::string_view what) {
  if (offset >= strings.size()) {
    throw error_(fmt::format("the name of {} is at byte {} of a string table of {} bytes", what,
                             offset, strings.size()));
  }
  const auto rest = strings.subspan(offset);
  const auto searched = rest.first(std::min(rest.size(), left_ + 1));
  const auto end = std::ranges::find(searched, std::byte{0});
  if (end == searched.end() && searched.size() > left_) {
    throw error_("its names are longer than the file");
  }
  if (end == searched.end()) throw error_(fmt::format("the name of {} has no end", what));
  const auto length = static_cast<std::size_t>(end - searched.begin());
  left_ -= length;
  return {reinterpret_cast<const char*>(rest.data()), length};
}

}  // namespace spjit
