#include "kernels/tuning/sample_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>

#include "base/gzip.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_most_sample_bytes = std::size_t{4} << 30;

std::string read_bytes(const std::filesystem::path& path, std::size_t limit_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw IoError(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  std::string bytes;
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), std::ssize(block)) || file.gcount() > 0) {
    bytes.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (bytes.size() > limit_bytes) {
      throw Error(fmt::format("{}: over {} bytes", path.string(), limit_bytes));
    }
  }
  if (file.bad()) throw IoError(path.string() + ": cannot be read");
  return bytes;
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  std::string bytes = read_bytes(path, limit_bytes);
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  try {
    return gunzip(std::as_bytes(std::span(bytes)), static_cast<std::int64_t>(limit_bytes));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void for_each_sample_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view)>& take) {
  const std::string text = read_text_file(path, k_most_sample_bytes);
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    try {
      take(std::string_view(text).substr(begin, end - begin));
    } catch (const Error& error) {
      throw Error(fmt::format("{}, line {}: {}", path.string(), line, error.what()));
    }
    begin = end + 1;
  }
}

}  // namespace spjit
