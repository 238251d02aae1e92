#include "matrix/column_numbers.hpp"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

// Three digits cover the 31 bits of a column.
constexpr unsigned k_digit_bits = 11;
constexpr std::size_t k_digits = std::size_t{1} << k_digit_bits;
constexpr unsigned k_column_bits = 31;

std::size_t digit_of(std::int32_t column, unsigned shift) {
  return (static_cast<std::uint32_t>(column) >> shift) & (k_digits - 1);
}

/// The entries in ascending order of one digit of their columns; equal ones keep their order.
void sort_by_digit(std::span<const std::int32_t> columns, unsigned shift,
                   std::vector<std::int64_t>& order, const Cancellation& cancel) {
  std::array<std::int64_t, k_digits + 1> starts{};
  for_each_piece(std::ssize(columns), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ++starts[digit_of(columns[to_size(i)], shift) + 1];
    }
  });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<std::int64_t> sorted = filled(std::ssize(order), std::int64_t{0}, cancel);
  for_each_piece(std::ssize(order), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t entry = order[to_size(i)];
      std::int64_t& next = starts[digit_of(columns[to_size(entry)], shift)];
      sorted[to_size(next++)] = entry;
    }
  });
  order = std::move(sorted);
}

std::int64_t number_by_sorting(std::span<std::int32_t> columns, const Cancellation& cancel) {
  const std::vector<std::int64_t> order = order_by_column(columns, cancel);
  std::int32_t column = -1;
  std::int32_t number = -1;
  for_each_piece(std::ssize(order), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t& entry = columns[to_size(order[to_size(i)])];
      if (std::exchange(column, entry) != entry) ++number;
      entry = number;
    }
  });
  return number + 1;
}

std::int64_t number_by_table(std::span<std::int32_t> columns, std::int64_t cols,
                             const Cancellation& cancel) {
  std::vector<std::int32_t> numbers = filled(cols, std::int32_t{0}, cancel);
  for_each_piece(std::ssize(columns), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      numbers[to_size(columns[to_size(i)])] = 1;
    }
  });
  std::int32_t next = 0;
  for_each_piece(cols, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t& number = numbers[to_size(i)];
      if (number != 0) number = next++;
    }
  });
  for_each_piece(std::ssize(columns), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t& column = columns[to_size(i)];
      column = numbers[to_size(column)];
    }
  });
  return next;
}

}  // namespace

bool columns_are_within(std::span<const std::int32_t> columns, std::int64_t cols) noexcept {
  const auto limit = static_cast<std::uint32_t>(cols);
  std::uint32_t outside = 0;
  for (const std::int32_t column : columns) {
    outside |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(column) >= limit);
  }
  return outside == 0;
}

std::vector<std::int64_t> order_by_column(std::span<const std::int32_t> columns,
                                          const Cancellation& cancel) {
  std::vector<std::int64_t> order = filled(std::ssize(columns), std::int64_t{0}, cancel);
  for_each_piece(std::ssize(order), cancel, [&](std::int64_t begin, std::int64_t end) {
    std::iota(order.begin() + begin, order.begin() + end, begin);
  });
  for (unsigned shift = 0; shift < k_column_bits; shift += k_digit_bits) {
    sort_by_digit(columns, shift, order, cancel);
  }
  return order;
}

std::int64_t number_used_columns(std::span<std::int32_t> columns, std::int64_t cols,
                                 const Cancellation& cancel) {
  return columns_are_few(cols, std::ssize(columns)) ? number_by_table(columns, cols, cancel)
                                                    : number_by_sorting(columns, cancel);
}

ColumnNumbers::ColumnNumbers(std::span<const std::int32_t> columns, std::int64_t cols,
                             const Cancellation& cancel)
    : count_(cols), of_entries_(columns) {
  if (columns_are_few(cols, std::ssize(columns))) return;
  append_in_pieces(own_, columns, cancel);
  count_ = number_used_columns(own_, cols, cancel);
  of_entries_ = own_;
}

}  // namespace spjit
