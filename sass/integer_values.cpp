#include "sass/integer_values.hpp"

namespace spjit::sass {
namespace {

std::uint64_t product(std::uint32_t a, std::uint32_t b, bool is_signed) {
  if (!is_signed) return std::uint64_t{a} * b;
  return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(a)} *
                                    std::int64_t{static_cast<std::int32_t>(b)});
}

WideSum wide_sum(std::uint64_t a, std::uint64_t b, bool carry) {
  std::uint64_t sum = 0;
  const bool first = __builtin_add_overflow(a, b, &sum);
  const bool second = __builtin_add_overflow(sum, std::uint64_t{carry}, &sum);
  return {sum, first || second};
}

}  // namespace

WideSum imad_value(const Imad& kind, std::uint32_t a, std::uint32_t b, std::uint64_t c,
                   bool carry) {
  const std::uint64_t full = product(a, b, kind.is_signed);
  if (kind.is_wide) return wide_sum(full, c, carry);
  const std::uint64_t sum = wide_sum(full, c, carry).value;
  return {(kind.is_high ? sum >> 32 : sum) & 0xffffffff, false};
}

}  // namespace spjit::sass
