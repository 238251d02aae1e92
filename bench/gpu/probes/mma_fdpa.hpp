#pragma once

// T-FDPA, the arithmetic that is published for the tensor cores (arXiv 2511.10909, 2512.07004), in
// integers: `group` products and c are aligned to the greatest exponent, each is truncated toward
// zero to `fraction_bits`, they are added exactly, and the sum is truncated to fp32.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "mma_inputs.hpp"

namespace probe {

/// The published rule and what it leaves open. The defaults are the simplest reading.
struct Rule {
  int group = 16;                // L: products of a step
  int fraction_bits = 25;        // F: below the greatest exponent
  bool zeros_align = false;      // a zero operand's exponent takes part in the greatest one
  bool normalized = false;       // products in [2, 4) count with their own exponent
  bool overflow_to_max = false;  // truncation at the end of fp32 gives the greatest value, not inf
  bool round_tf32 = false;       // tf32 operands are rounded to nearest even, not truncated
};

constexpr int k_max_fraction_bits = 36;
constexpr std::uint32_t k_nan = 0x7fffffffu;
constexpr std::uint32_t k_infinity = 0x7f800000u;

struct Unpacked {
  bool negative;
  bool nan;
  bool infinite;
  std::int64_t significand;  // |value| = significand * 2^(exponent - fraction_bits)
  int exponent;
  int fraction_bits;
};

inline Unpacked unpack(Format format, std::uint32_t bits) {
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t field = bits >> format.mantissa_bits & format.special_field();
  const bool special = field == format.special_field();
  const bool normal = field != 0;
  return {(bits >> (format.mantissa_bits + format.exponent_bits) & 1) == 1,
          special && mantissa != 0,
          special && mantissa == 0,
          static_cast<std::int64_t>(normal ? 1u << format.mantissa_bits | mantissa : mantissa),
          (normal ? static_cast<int>(field) : 1) - format.bias(),
          format.mantissa_bits};
}

inline Unpacked unpack_operand(const Test& test, const Rule& rule, std::uint32_t bits) {
  if (!test.tf32) return unpack(test.format, bits);
  const Unpacked whole = unpack(test.format, bits);
  if (whole.nan) return whole;
  if (rule.round_tf32 && !whole.infinite) bits += 0xfffu + (bits >> 13 & 1);
  Unpacked value = unpack(test.format, bits & ~0x1fffu);
  value.significand >>= 13;
  value.fraction_bits -= 13;
  return value;
}

inline Unpacked multiply(const Unpacked& a, const Unpacked& b) {
  const bool a_zero = !a.nan && !a.infinite && a.significand == 0;
  const bool b_zero = !b.nan && !b.infinite && b.significand == 0;
  const bool infinite = a.infinite || b.infinite;
  return {a.negative != b.negative,
          a.nan || b.nan || (a.infinite && b_zero) || (b.infinite && a_zero),
          infinite,
          infinite ? 1 : a.significand * b.significand,
          a.exponent + b.exponent,
          a.fraction_bits + b.fraction_bits};
}

inline Unpacked normalize(Unpacked value) {
  if (value.significand == 0) return value;
  const int top =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value.significand))) - 1;
  value.exponent += top - value.fraction_bits;
  value.fraction_bits = top;
  return value;
}

/// sum * 2^quantum as fp32, toward zero.
inline std::uint32_t truncate_to_fp32(std::int64_t sum, int quantum, bool overflow_to_max) {
  if (sum == 0) return 0;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int width = static_cast<int>(std::bit_width(magnitude));
  const int exponent = width - 1 + quantum;
  if (exponent > 127) return sign | (overflow_to_max ? k_infinity - 1 : k_infinity);
  const int last = exponent >= -126 ? exponent - 23 : -149;  // exponent of the last kept bit
  const int shift = last - quantum;
  std::uint64_t kept = 0;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift < 64) {
    kept = magnitude >> shift;
  }
  const std::uint32_t field = exponent >= -126 ? static_cast<std::uint32_t>(exponent + 127) : 0;
  return sign | field << 23 | (static_cast<std::uint32_t>(kept) & 0x7fffffu);
}

/// One step: c + the products, as fp32 bits.
inline std::uint32_t fdpa_step(const Rule& rule, std::uint32_t c,
                               std::span<const Unpacked> products) {
  const Unpacked first = unpack(k_f32, c);
  bool nan = first.nan;
  bool plus_infinity = first.infinite && !first.negative;
  bool minus_infinity = first.infinite && first.negative;
  bool all_minus_zero = first.negative && first.significand == 0;
  int greatest = first.significand != 0 ? first.exponent : -100000;
  for (const Unpacked& product : products) {
    nan |= product.nan;
    plus_infinity |= product.infinite && !product.negative;
    minus_infinity |= product.infinite && product.negative;
    all_minus_zero &= product.negative && product.significand == 0;
    const Unpacked seen = rule.normalized ? normalize(product) : product;
    if (seen.significand != 0 || rule.zeros_align) greatest = std::max(greatest, seen.exponent);
  }
  if (nan || (plus_infinity && minus_infinity)) return k_nan;
  if (plus_infinity) return k_infinity;
  if (minus_infinity) return k_infinity | 0x80000000u;
  if (all_minus_zero) return 0x80000000u;
  std::int64_t sum = 0;
  const auto add = [&](const Unpacked& term) {
    if (term.significand == 0) return;
    const int shift = rule.fraction_bits - term.fraction_bits - (greatest - term.exponent);
    const std::int64_t aligned = shift >= 0    ? term.significand << shift
                                 : shift > -63 ? term.significand >> -shift
                                               : 0;
    sum += term.negative ? -aligned : aligned;
  };
  add(first);
  for (const Unpacked& product : products) add(rule.normalized ? normalize(product) : product);
  return truncate_to_fp32(sum, greatest - rule.fraction_bits, rule.overflow_to_max);
}

/// An instruction: steps of `group` products, in ascending columns of A.
inline std::uint32_t fdpa(const Rule& rule, std::uint32_t c, std::span<const Unpacked> products) {
  for (std::size_t begin = 0; begin < products.size();) {
    const std::size_t size =
        std::min(static_cast<std::size_t>(rule.group), products.size() - begin);
    c = fdpa_step(rule, c, products.subspan(begin, size));
    begin += size;
  }
  return c;
}

}  // namespace probe
