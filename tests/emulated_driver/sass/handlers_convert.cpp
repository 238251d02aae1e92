// F2I I2F I2FP FRND

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "emulated_driver/sass/handlers.hpp"

namespace spjit::emulated {

namespace {

using sass::Modifier;
using sass::Opcode;

double towards(const sass::Instruction& instruction, double value) {
  if (instruction.has(Modifier::trunc)) return std::trunc(value);
  if (instruction.has(Modifier::floor)) return std::floor(value);
  if (instruction.has(Modifier::ceil)) return std::ceil(value);
  return std::nearbyint(value);
}

/// The nearest integer of the type: beyond it the last one. A NaN is 0.
template <class Integer>
std::uint64_t as_integer(double value) {
  if (std::isnan(value)) return 0;
  using Limits = std::numeric_limits<Integer>;
  constexpr Integer half = Limits::max() / 2 + 1;
  constexpr double above = 2.0 * static_cast<double>(half);
  if (value >= above) return static_cast<std::uint64_t>(Limits::max());
  if (value <= static_cast<double>(Limits::min())) return static_cast<std::uint64_t>(Limits::min());
  return static_cast<std::uint64_t>(static_cast<Integer>(value));
}

float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

std::uint64_t converted(const sass::Instruction& instruction, float from) {
  // What a NaN becomes without .NTZ is the device's own.
  if (std::isnan(from) && !instruction.has(Modifier::ntz)) {
    throw ProgramError(FaultKind::trap, "converts a NaN");
  }
  const float flushes = instruction.has(Modifier::ftz) ? flushed(from) : from;
  const double value = towards(instruction, static_cast<double>(flushes));
  if (instruction.has(Modifier::u32)) return as_integer<std::uint32_t>(value);
  if (instruction.has(Modifier::u64)) return as_integer<std::uint64_t>(value);
  if (instruction.has(Modifier::s64)) return as_integer<std::int64_t>(value);
  return as_integer<std::int32_t>(value);
}

void f2i(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes d = {};
  Lanes d_high = {};
  const Lanes& a = warp.floats(operation.at(1), room);
  for_each_lane(warp.exec(), [&](unsigned i) {
    const std::uint64_t value = converted(operation.instruction, std::bit_cast<float>(a[i]));
    d[i] = static_cast<std::uint32_t>(value & 0xffffffff);
    d_high[i] = static_cast<std::uint32_t>(value >> 32);
  });
  warp.write(operation.at(0), d);
  if (operation.at(0).registers == 2) warp.write(operation.at(0), d_high, 1);
}

template <class Integer>
float rounded(Integer from, const sass::Instruction& instruction) {
  const int mode = instruction.has(Modifier::rm)   ? FE_DOWNWARD
                   : instruction.has(Modifier::rp) ? FE_UPWARD
                   : instruction.has(Modifier::rz) ? FE_TOWARDZERO
                                                   : FE_TONEAREST;
  volatile Integer value = from;
  std::fesetround(mode);
  volatile auto result = static_cast<float>(value);
  std::fesetround(FE_TONEAREST);
  return result;
}

float as_float(const sass::Instruction& instruction, std::uint32_t low, std::uint32_t high) {
  const std::uint64_t wide = std::uint64_t{high} << 32 | low;
  if (instruction.has(Modifier::u64)) return rounded(wide, instruction);
  if (instruction.has(Modifier::s64)) return rounded(static_cast<std::int64_t>(wide), instruction);
  if (instruction.has(Modifier::u32)) return rounded(low, instruction);
  return rounded(static_cast<std::int32_t>(low), instruction);
}

void i2f(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes room_high;
  Lanes d;
  const bool is_wide = operation.at(1).registers == 2;
  const Lanes& low = warp.integers(operation.at(1), room);
  const Lanes& high = is_wide ? warp.integers(operation.at(1), room_high, 1) : low;
  for (unsigned i = 0; i < k_lanes; ++i) {
    d[i] = std::bit_cast<std::uint32_t>(as_float(operation.instruction, low[i], high[i]));
  }
  warp.write(operation.at(0), d);
}

void frnd(Warp& warp, const SassOperation& operation) {
  Lanes room;
  Lanes d;
  const Lanes& a = warp.floats(operation.at(1), room);
  for (unsigned i = 0; i < k_lanes; ++i) {
    const auto from = std::bit_cast<float>(a[i]);
    const float kept = operation.instruction.has(Modifier::ftz) ? flushed(from) : from;
    const auto value =
        static_cast<float>(towards(operation.instruction, static_cast<double>(kept)));
    d[i] = std::isnan(value) ? 0x7fffffff : std::bit_cast<std::uint32_t>(value);
  }
  warp.write(operation.at(0), d);
}

}  // namespace

SassHandler convert_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::f2i:
      return f2i;
    case Opcode::i2f:
    case Opcode::i2fp:
      return i2f;
    case Opcode::frnd:
      return frnd;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
