#pragma once

// The inputs of the mma probe: a pure function of (test, tile, row, column), so that the judge
// makes them anew and only results travel.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define PROBE_HD __host__ __device__
#else
#define PROBE_HD
#endif

namespace probe {

struct Format {
  int mantissa_bits;
  int exponent_bits;
  PROBE_HD constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  PROBE_HD constexpr std::uint32_t special_field() const { return (1u << exponent_bits) - 1; }
};

constexpr Format k_f16{10, 5};
constexpr Format k_bf16{7, 8};
constexpr Format k_f32{23, 8};  // tf32 operands travel as fp32

enum class Instruction : int { mma, mma_sp, wgmma };

struct Test {
  const char* name;
  Instruction instruction;
  Format format;
  bool tf32;
  int products;  // of one output: columns of A that are stored
  int depth;     // rows of B
};

constexpr int k_test_count = 7;

// A function, since device code reads no host array.
PROBE_HD constexpr Test test_of(int id) {
  switch (id) {
    case 0:
      return {"mma_f16_k16", Instruction::mma, k_f16, false, 16, 16};
    case 1:
      return {"mma_bf16_k16", Instruction::mma, k_bf16, false, 16, 16};
    case 2:
      return {"mma_tf32_k8", Instruction::mma, k_f32, true, 8, 8};
    case 3:
      return {"mma_sp_f16_k32", Instruction::mma_sp, k_f16, false, 16, 32};
    case 4:
      return {"wgmma_f16_k16", Instruction::wgmma, k_f16, false, 16, 16};
    case 5:
      return {"wgmma_bf16_k16", Instruction::wgmma, k_bf16, false, 16, 16};
    default:
      return {"wgmma_tf32_k8", Instruction::wgmma, k_f32, true, 8, 8};
  }
}

enum class Kind : int {
  narrow,        // exponents within 5
  wide,          // exponents over most of the range
  cancellation,  // all products but two cancel in pairs
  denormals,     // denormal inputs, and results where the format reaches them
  large_c,       // c hides most bits of the products
  raw_bits,      // any bits, with some NaN and infinities
  zeros,         // half of A is zero, whole rows too, and -0; two columns of B are huge
  positive,      // full mantissas of one sign, c = 0
  powers,        // powers of two: shows the fraction bits
  network,       // like weights and activations
  overflow,      // results at the end of fp32
};
constexpr int k_kind_count = 11;
constexpr const char* k_kind_names[] = {"narrow",  "wide",     "cancellation", "denormals",
                                        "large_c", "raw_bits", "zeros",        "positive",
                                        "powers",  "network",  "overflow"};

constexpr int k_rows = 16;
constexpr int k_columns = 8;
constexpr int k_tile_size = k_rows * k_columns;
constexpr int k_tiles = 4 * k_kind_count * 18;  // 101,376 outputs a test

// Four tiles in a row are of one kind: they are the 64 rows of a wgmma, which share B.
PROBE_HD constexpr Kind kind_of(int tile) { return static_cast<Kind>(tile / 4 % k_kind_count); }
PROBE_HD constexpr int b_tile(const Test& test, int tile) {
  return test.instruction == Instruction::wgmma ? tile / 4 * 4 : tile;
}

struct Kept {
  int first;
  int second;
};

/// Which two of each four columns a tile of mma.sp keeps.
PROBE_HD constexpr Kept kept_of(int tile) {
  switch (tile % 6) {
    case 0:
      return {0, 1};
    case 1:
      return {0, 2};
    case 2:
      return {0, 3};
    case 3:
      return {1, 2};
    case 4:
      return {1, 3};
    default:
      return {2, 3};
  }
}

/// The row of B that the stored column `index` of A meets.
PROBE_HD constexpr int b_row(const Test& test, int tile, int index) {
  if (test.instruction != Instruction::mma_sp) return index;
  const Kept kept = kept_of(tile);
  return index / 2 * 4 + (index % 2 == 0 ? kept.first : kept.second);
}

PROBE_HD constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Random bits of one element, taken from the low end.
struct Bits {
  std::uint64_t left;
  PROBE_HD constexpr std::uint32_t take(int count) {
    const std::uint32_t taken = static_cast<std::uint32_t>(left & ((1ull << count) - 1));
    left >>= count;
    return taken;
  }
  /// In [low, high]; the span is at most 2^10.
  PROBE_HD constexpr int between(int low, int high) {
    return low + static_cast<int>(take(16) * static_cast<std::uint32_t>(high - low + 1) >> 16);
  }
};

PROBE_HD constexpr Bits random_bits(int test, int tile, int matrix, int element) {
  return {
      mix(mix(static_cast<std::uint64_t>(test) << 48 | static_cast<std::uint64_t>(matrix) << 40 |
              static_cast<std::uint64_t>(tile) << 16 | static_cast<std::uint64_t>(element)))};
}

/// 1.mantissa * 2^exponent, denormal or zero below the range, the greatest finite value above.
PROBE_HD constexpr std::uint32_t assemble(Format format, bool negative, int exponent,
                                          std::uint32_t mantissa) {
  const std::uint32_t sign = static_cast<std::uint32_t>(negative)
                             << (format.exponent_bits + format.mantissa_bits);
  const int field = exponent + format.bias();
  if (field >= static_cast<int>(format.special_field())) {
    return sign | (((format.special_field() - 1) << format.mantissa_bits) |
                   ((1u << format.mantissa_bits) - 1));
  }
  if (field >= 1)
    return sign | static_cast<std::uint32_t>(field) << format.mantissa_bits | mantissa;
  const int shift = 1 - field;
  if (shift > format.mantissa_bits) return sign;
  return sign | ((1u << format.mantissa_bits | mantissa) >> shift);
}

struct Exponents {
  int low;
  int high;
};

/// Exponents of A's and B's elements.
PROBE_HD constexpr Exponents operand_exponents(Kind kind, Format format) {
  const bool small_range = format.exponent_bits == 5;
  switch (kind) {
    case Kind::wide:
      return small_range ? Exponents{-14, 15} : Exponents{-30, 30};
    case Kind::cancellation:
      return {-4, 4};
    case Kind::denormals:
      return small_range ? Exponents{-22, -10} : Exponents{-75, -60};
    case Kind::large_c:
      return {-5, 2};
    case Kind::zeros:
      return {-12, 12};
    case Kind::positive:
      return {-1, 0};
    case Kind::powers:
      return {-14, 0};
    case Kind::network:
      return {-6, 1};
    case Kind::overflow:
      return small_range ? Exponents{13, 15} : Exponents{60, 63};
    default:
      return {-2, 2};
  }
}

PROBE_HD constexpr Exponents c_exponents(Kind kind, Format format) {
  const bool small_range = format.exponent_bits == 5;
  switch (kind) {
    case Kind::wide:
      return small_range ? Exponents{-30, 34} : Exponents{-64, 64};
    case Kind::cancellation:
      return {-24, 2};
    case Kind::denormals:
      return small_range ? Exponents{-60, -24} : Exponents{-149, -122};
    case Kind::large_c:
      return {4, 24};
    case Kind::zeros:
      return {-30, 24};
    case Kind::powers:
      return {-30, 2};
    case Kind::network:
      return {-4, 6};
    case Kind::overflow:
      return {124, 127};
    default:
      return {-2, 4};
  }
}

/// Any bits; one in 64 is NaN or an infinity.
PROBE_HD constexpr std::uint32_t raw_value(Format format, Bits bits) {
  const bool special = bits.take(6) == 0;
  const bool infinite = bits.take(1) == 0;
  const bool negative = bits.take(1) == 0;
  const std::uint32_t mantissa = bits.take(format.mantissa_bits);
  const std::uint32_t field =
      special ? format.special_field() : bits.take(format.exponent_bits) % format.special_field();
  return static_cast<std::uint32_t>(negative) << (format.exponent_bits + format.mantissa_bits) |
         field << format.mantissa_bits | (special && infinite ? 0 : mantissa);
}

PROBE_HD constexpr std::uint32_t make_value(Kind kind, Format format, Exponents range, Bits bits) {
  if (kind == Kind::raw_bits) return raw_value(format, bits);
  const bool negative = bits.take(1) == 1 && kind != Kind::positive;
  const int exponent = bits.between(range.low, range.high);
  std::uint32_t mantissa = bits.take(format.mantissa_bits);
  if (kind == Kind::positive) mantissa |= mantissa << 1 & ((1u << format.mantissa_bits) - 1);
  if (kind == Kind::powers) mantissa = 0;
  return assemble(format, negative, exponent, mantissa);
}

/// tf32 reads 10 of the 23 bits: every second run of tiles has bits below them, to see what
/// happens.
PROBE_HD constexpr std::uint32_t as_operand(const Test& test, int tile, std::uint32_t bits) {
  const bool low_bits = tile / (4 * k_kind_count) % 2 == 1;
  return test.tf32 && !low_bits ? bits & ~0x1fffu : bits;
}

/// A's stored element [row, index], as bits of the test's format.
PROBE_HD constexpr std::uint32_t a_bits(int test_id, int tile, int row, int index) {
  const Test test = test_of(test_id);
  const Kind kind = kind_of(tile);
  const std::uint32_t sign = 1u << (test.format.exponent_bits + test.format.mantissa_bits);
  const bool paired = kind == Kind::cancellation && index < test.products - 2;
  const int element = paired ? index & ~1 : index;
  Bits bits = random_bits(test_id, tile, 0, row * 64 + element);
  if (kind == Kind::zeros) {
    const std::uint32_t draw = bits.take(3);
    if (row % 4 == 0 || draw < 4) return draw % 2 == 0 ? 0 : sign;
  }
  const std::uint32_t value =
      make_value(kind, test.format, operand_exponents(kind, test.format), bits);
  return as_operand(test, tile, paired && index % 2 == 1 ? value ^ sign : value);
}

/// B's element [row, column].
PROBE_HD constexpr std::uint32_t b_bits(int test_id, int tile, int row, int column) {
  const Test test = test_of(test_id);
  const int owner = b_tile(test, tile);
  const Kind kind = kind_of(owner);
  const int pair = test.depth / test.products * 2;  // rows of B that meet a pair of A's columns
  const bool paired = kind == Kind::cancellation && row < test.depth - pair;
  const int element = paired ? row / pair * pair : row;
  Bits bits = random_bits(test_id, owner, 1, element * 64 + column);
  if (kind == Kind::powers) return assemble(test.format, bits.take(1) == 1, 0, 0);
  Exponents range = operand_exponents(kind, test.format);
  // Far above all other terms where A's whole row is zero.
  if (kind == Kind::zeros && column % 4 == 0) range.high = range.low = test.format.bias();
  return as_operand(test, tile, make_value(kind, test.format, range, bits));
}

/// C's element [row, column]: fp32.
PROBE_HD constexpr std::uint32_t c_bits(int test_id, int tile, int row, int column) {
  const Kind kind = kind_of(tile);
  Bits bits = random_bits(test_id, tile, 2, row * 64 + column);
  if (kind == Kind::positive) return 0;
  if (kind == Kind::zeros) {
    const std::uint32_t draw = bits.take(3);
    if (draw == 0) return 0;
    if (draw == 1) return 0x80000000u;
  }
  return make_value(kind, k_f32, c_exponents(kind, test_of(test_id).format), bits);
}

/// The file of a test's results: this, then k_tiles x 16 x 8 fp32 as bits.
struct FileHeader {
  char magic[8];
  std::uint32_t test_id;
  std::uint32_t tiles;
};
constexpr char k_magic[8] = {'M', 'M', 'A', 'P', 'R', 'O', 'B', '1'};

}  // namespace probe
