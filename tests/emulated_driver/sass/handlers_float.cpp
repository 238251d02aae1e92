// FADD FMUL FFMA FSEL FMNMX FSETP FCHK MUFU HFMA2

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "emulated_driver/sass/handlers.hpp"

namespace spjit::emulated {

namespace {

using sass::Modifier;
using sass::Opcode;

constexpr std::uint32_t k_nan = 0x7fffffff;  // the only one that arithmetic gives

float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::uint32_t bits_of(float value) {
  return std::isnan(value) ? k_nan : std::bit_cast<std::uint32_t>(value);
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

struct Sum {
  static float apply(float a, float b, float /*c*/) { return a + b; }
};
struct Product {
  static float apply(float a, float b, float /*c*/) { return a * b; }
};
struct Fma {
  static float apply(float a, float b, float c) { return std::fma(a, b, c); }
};

constexpr std::uint32_t k_ftz = 1;
constexpr std::uint32_t k_sat = 2;
constexpr unsigned k_rounding_shift = 2;

std::uint32_t flags_of(const sass::Instruction& instruction) {
  std::uint32_t flags = instruction.has(Modifier::ftz) ? k_ftz : 0;
  if (instruction.has(Modifier::sat)) flags |= k_sat;
  const std::uint32_t rounding = instruction.has(Modifier::rm)   ? 1
                                 : instruction.has(Modifier::rp) ? 2
                                 : instruction.has(Modifier::rz) ? 3
                                                                 : 0;
  return flags | rounding << k_rounding_shift;
}

// The compiler knows nothing of the rounding mode: volatile keeps the operation between the calls.
template <class Function>
float rounded(std::uint32_t flags, float a_in, float b_in, float c_in) {
  constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  const bool flushes = (flags & k_ftz) != 0;
  volatile float a = flushes ? flushed(a_in) : a_in;
  volatile float b = flushes ? flushed(b_in) : b_in;
  volatile float c = flushes ? flushed(c_in) : c_in;
  std::fesetround(modes[flags >> k_rounding_shift]);
  volatile float result = Function::apply(a, b, c);
  std::fesetround(FE_TONEAREST);
  float value = result;
  if ((flags & k_sat) != 0)
    value = std::isnan(value) ? 0.0F : std::fmin(std::fmax(value, 0.0F), 1.0F);
  return flushes ? flushed(value) : value;
}

struct Sources {
  const Lanes& a;
  const Lanes& b;
  const Lanes& c;
};

template <class Function>
void lane_by_lane(const Sources& from, std::uint32_t flags, Lanes& d) {
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = bits_of(
        rounded<Function>(flags, as_float(from.a[i]), as_float(from.b[i]), as_float(from.c[i])));
  }
}

// lane_by_lane() for values to the nearest with denormals: a loop that compilers vectorise. With
// the instruction of this CPU where it has one.
template <class Function>
[[gnu::always_inline]] inline void nearest(const Sources& from, Lanes& d) {
  for (unsigned i = 0; i < k_lanes; ++i) {
    const float value =
        Function::apply(as_float(from.a[i]), as_float(from.b[i]), as_float(from.c[i]));
    d[i] = value != value ? k_nan : std::bit_cast<std::uint32_t>(value);
  }
}

void fma_of_library(const Sources& from, Lanes& d) { nearest<Fma>(from, d); }

#if defined(__x86_64__)

[[gnu::target("avx2,fma")]] void fma_of_cpu(const Sources& from, Lanes& d) {
  for (unsigned i = 0; i < k_lanes; ++i) {
    const float value =
        __builtin_fmaf(as_float(from.a[i]), as_float(from.b[i]), as_float(from.c[i]));
    d[i] = value != value ? k_nan : std::bit_cast<std::uint32_t>(value);
  }
}

bool has_fma() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }
#endif

void fma_to_nearest(const Sources& from, Lanes& d) {
#if defined(__x86_64__)
  static const bool is_there = has_fma();
  if (is_there) {
    fma_of_cpu(from, d);
    return;
  }
#endif
  fma_of_library(from, d);
}

template <class Function>
void float_of_two(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  const Sources sources{a, b, b};
  const std::uint32_t flags = flags_of(operation.instruction);
  if (flags == 0) {
    nearest<Function>(sources, d);
  } else {
    lane_by_lane<Function>(sources, flags, d);
  }
  warp.write(operation.at(0), d);
}

void ffma(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  const Lanes& c = warp.floats(operation.at(3), room_c);
  fma_to_nearest({a, b, c}, d);
  warp.write(operation.at(0), d);
}

void ffma_with_flags(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  const Lanes& c = warp.floats(operation.at(3), room_c);
  lane_by_lane<Fma>({a, b, c}, flags_of(operation.instruction), d);
  warp.write(operation.at(0), d);
}

void fsel(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  const LaneMask takes_a = warp.predicate(operation.at(3));
  for (unsigned i = 0; i < k_lanes; ++i) d[i] = (takes_a >> i & 1) != 0 ? a[i] : b[i];
  warp.write(operation.at(0), d);
}

// -0 is less than +0; a number wins over a NaN unless .NAN is given.
std::uint32_t extremum(std::uint32_t a_bits, std::uint32_t b_bits, bool is_min,
                       const sass::Instruction& instruction) {
  const bool flushes = instruction.has(Modifier::ftz);
  const float a = flushes ? flushed(as_float(a_bits)) : as_float(a_bits);
  const float b = flushes ? flushed(as_float(b_bits)) : as_float(b_bits);
  if (std::isnan(a) || std::isnan(b)) {
    if (instruction.has(Modifier::nan)) return k_nan;
    return bits_of(std::isnan(a) ? b : a);
  }
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return bits_of(a_is_less == is_min ? a : b);
}

void fmnmx(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  const LaneMask is_min = warp.predicate(operation.at(3));
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = extremum(a[i], b[i], (is_min >> i & 1) != 0, operation.instruction);
  }
  warp.write(operation.at(0), d);
}

/// The comparisons of a float: three bits for less, equal and greater, and one for NaN.
std::uint32_t relation_of(Modifier name) {
  constexpr Modifier names[] = {Modifier::f,   Modifier::lt,  Modifier::eq,  Modifier::le,
                                Modifier::gt,  Modifier::ne,  Modifier::ge,  Modifier::num,
                                Modifier::nan, Modifier::ltu, Modifier::equ, Modifier::leu,
                                Modifier::gtu, Modifier::neu, Modifier::geu, Modifier::t};
  for (std::uint32_t i = 0; i < std::size(names); ++i) {
    if (names[i] == name) return i;
  }
  return 0;
}

void fsetp(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  const Lanes& a_lanes = warp.floats(operation.at(2), room_a);
  const Lanes& b_lanes = warp.floats(operation.at(3), room_b);
  const std::uint32_t relation = relation_of(operation.instruction.modifiers[0]);
  const bool flushes = operation.instruction.has(Modifier::ftz);
  LaneMask holds = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const float a = flushes ? flushed(as_float(a_lanes[i])) : as_float(a_lanes[i]);
    const float b = flushes ? flushed(as_float(b_lanes[i])) : as_float(b_lanes[i]);
    const unsigned bit = a < b ? 0U : a == b ? 1U : a > b ? 2U : 3U;
    holds |= (relation >> bit & 1) << i;
  }
  write_combined(warp, operation, holds, warp.predicate(operation.at(4)));
}

// Whether a division needs the long way. The hardware's own rule is not published: this one sends
// all there that could overflow, underflow or lose bits on the short one.
bool needs_long_division(float a, float b) {
  constexpr int most = 100;
  const auto is_far = [](float value) {
    return !std::isnormal(value) || std::abs(std::ilogb(value)) > most;
  };
  return is_far(a) || is_far(b) || std::abs(std::ilogb(a) - std::ilogb(b)) > most;
}

void fchk(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  const Lanes& a = warp.floats(operation.at(1), room_a);
  const Lanes& b = warp.floats(operation.at(2), room_b);
  LaneMask needs = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    needs |= LaneMask{needs_long_division(as_float(a[i]), as_float(b[i]))} << i;
  }
  warp.write_predicate(operation.at(0), needs);
}

// An approximation of the device: here the nearest float of what the host's library gives, with
// denormals as zeros. What is exact on a GPU corrects it, whatever its last bit.
template <auto function>
void approximate(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room);
  for (unsigned i = 0; i < k_lanes; ++i) {
    const float from = flushed(as_float(a[i]));
    d[i] = bits_of(flushed(static_cast<float>(function(static_cast<double>(from)))));
  }
  warp.write(operation.at(0), d);
}

double reciprocal(double a) { return 1 / a; }
double reciprocal_root(double a) { return 1 / std::sqrt(a); }
double root(double a) { return std::sqrt(a); }
double power_of_two(double a) { return std::exp2(a); }
double logarithm_of_two(double a) { return std::log2(a); }
double hyperbolic_tangent(double a) { return std::tanh(a); }

SassHandler mufu_handler(const sass::Instruction& instruction) {
  switch (instruction.modifiers[0]) {
    case Modifier::rcp:
      return approximate<reciprocal>;
    case Modifier::rsq:
      return approximate<reciprocal_root>;
    case Modifier::sqrt:
      return approximate<root>;
    case Modifier::ex2:
      return approximate<power_of_two>;
    case Modifier::lg2:
      return approximate<logarithm_of_two>;
    case Modifier::tanh:
      return approximate<hyperbolic_tangent>;
    default:
      refuse_form(instruction);
  }
}

// -0 x 0 + c in both halves: c. Halves that are NaNs would change.
void hfma2(Warp& warp, const SassOperation& operation) {
  const auto high = static_cast<std::uint32_t>(operation.at(3).value);
  const auto low = static_cast<std::uint32_t>(operation.at(4).value);
  Lanes d;
  d.values.fill(high << 16 | low);
  warp.write(operation.at(0), d);
}

SassHandler hfma2_handler(const sass::Instruction& instruction) {
  constexpr std::int64_t first_nan = 0x7c01;
  const sass::Operand& a = instruction.operands[1];
  const sass::Operand& b = instruction.operands[2];
  bool is_move = a.is_fixed() && a.negated && b.is_fixed();
  for (const std::size_t half : {3U, 4U}) {
    is_move = is_move && (instruction.operands[half].value & 0x7fff) < first_nan;
  }
  if (!is_move) refuse_form(instruction);
  return hfma2;
}

}  // namespace

SassHandler float_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::fadd:
      return float_of_two<Sum>;
    case Opcode::fmul:
      return float_of_two<Product>;
    case Opcode::ffma:
      return flags_of(instruction) == 0 ? ffma : ffma_with_flags;
    case Opcode::fsel:
      if (instruction.has(Modifier::ftz)) refuse_form(instruction);
      return fsel;
    case Opcode::fmnmx:
      return fmnmx;
    case Opcode::fsetp:
      return fsetp;
    case Opcode::fchk:
      return fchk;
    case Opcode::mufu:
      return mufu_handler(instruction);
    case Opcode::hfma2:
      return hfma2_handler(instruction);
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
