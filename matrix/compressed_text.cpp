#include "matrix/compressed_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/file_bytes.hpp"
#include "base/gzip.hpp"
#include "matrix/limits.hpp"
#include "matrix/mtx_header.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::string head_of(const std::vector<std::byte>& bytes, std::int64_t most,
                    const std::string& name) {
  try {
    return gunzip_head(bytes, most);
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {
    fail_to_read(name, error.what());
  }
}

void require_first_lines(const std::string& head, const std::string& name) {
  TextLines lines(head, name);
  if (next_content_line(lines) && lines.bytes_left() > 0) return;
  fail_to_read(name, fmt::format("the sizes do not come within the first {} bytes, as they have to "
                                 "in a compressed file",
                                 k_most_head_bytes));
}

}  // namespace

std::string read_compressed_text(const std::filesystem::path& path,
                                 const CountNumbers& count_numbers) {
  const std::string name = path.string();
  const std::vector<std::byte> bytes = read_file(path);
  std::string head = head_of(bytes, k_most_head_bytes + 1, name);
  if (std::ssize(head) <= k_most_head_bytes) return head;  // that is all
  require_first_lines(head, name);
  TextLines lines(head, name);
  constexpr std::int64_t k_most_numbers = std::int64_t{1} << 48;  // whose bytes can be counted
  const std::int64_t numbers = std::min(count_numbers(lines), k_most_numbers);
  const std::int64_t most = 2 * k_most_head_bytes + numbers * k_most_number_bytes;
  const std::int64_t memory = memory_bytes();
  std::string text = head_of(bytes, std::min(most, memory) + 1, name);
  if (std::ssize(text) <= std::min(most, memory)) return text;
  fail_to_read(name, most <= memory
                         ? fmt::format("{} bytes unpack to over {}, more than the {} numbers of "
                                       "its first lines can take",
                                       bytes.size(), most, numbers)
                         : fmt::format("{} bytes unpack to over {}, the memory of this machine",
                                       bytes.size(), memory));
}

}  // namespace spjit
