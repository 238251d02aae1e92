#include "matrix/rows_of_b.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"

namespace spjit {

RowRanges rows_of_b(std::span<const std::int32_t> columns, std::int64_t cols,
                    const Cancellation& cancel) {
  constexpr std::int64_t k_block = 1024;
  std::vector<char> is_read(to_size(ceil_div(cols, k_block)), 0);
  for_each_piece(std::ssize(columns), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (const std::int32_t column : columns.subspan(to_size(begin), to_size(end - begin))) {
      is_read[to_size(column / k_block)] = 1;
    }
  });

  RowRanges ranges;
  for (std::size_t block = 0; block < is_read.size(); ++block) {
    if (is_read[block] == 0) continue;
    const std::int64_t begin = static_cast<std::int64_t>(block) * k_block;
    ranges.add(begin, std::min(begin + k_block, cols));
  }
  return ranges;
}

}  // namespace spjit
