// What ptxas makes of a division of integers: I2F MUFU.RCP F2I

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "clock/warp_walker.hpp"

namespace spjit {
namespace {

using sass::Modifier;
using sass::Opcode;

constexpr float k_infinity = std::numeric_limits<float>::infinity();

bool is_unsigned(const sass::Instruction& instruction) { return instruction.has(Modifier::u32); }

/// The float of an integer, rounded as the instruction says.
std::uint32_t to_float(const sass::Instruction& instruction, std::uint32_t bits) {
  const double exact = is_unsigned(instruction)
                           ? static_cast<double>(bits)
                           : static_cast<double>(std::bit_cast<std::int32_t>(bits));
  const auto nearest = static_cast<float>(exact);
  const bool is_above = static_cast<double>(nearest) > exact;
  const bool is_below = static_cast<double>(nearest) < exact;
  const bool goes_down =
      instruction.has(Modifier::rm) || (instruction.has(Modifier::rz) && exact > 0);
  const bool goes_up =
      instruction.has(Modifier::rp) || (instruction.has(Modifier::rz) && exact < 0);
  float rounded = nearest;
  if (is_above && goes_down) rounded = std::nextafter(nearest, -k_infinity);
  if (is_below && goes_up) rounded = std::nextafter(nearest, k_infinity);
  return std::bit_cast<std::uint32_t>(rounded);
}

/// The integer of a float; what is out of range is the nearest one, NaN 0.
std::uint32_t to_integer(const sass::Instruction& instruction, std::uint32_t bits) {
  const auto from = static_cast<double>(std::bit_cast<float>(bits));
  if (std::isnan(from)) return 0;
  const double whole = instruction.has(Modifier::trunc)   ? std::trunc(from)
                       : instruction.has(Modifier::floor) ? std::floor(from)
                       : instruction.has(Modifier::ceil)  ? std::ceil(from)
                                                          : std::nearbyint(from);
  if (is_unsigned(instruction)) {
    constexpr double most = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::clamp(whole, 0.0, most));
  }
  using Limits = std::numeric_limits<std::int32_t>;
  return std::bit_cast<std::uint32_t>(
      static_cast<std::int32_t>(std::clamp(whole, double{Limits::min()}, double{Limits::max()})));
}

/// The device's is off by a bit at times, which the steps of a division after it make good.
std::uint32_t reciprocal(const sass::Instruction& /*instruction*/, std::uint32_t bits) {
  return std::bit_cast<std::uint32_t>(1 / std::bit_cast<float>(bits));
}

}  // namespace

/// False for what is not part of a division of 32 bits, and where nothing of the source is known.
bool WarpWalk::divisions(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const bool is_wide = instruction.has(Modifier::u64) || instruction.has(Modifier::s64);
  std::uint32_t (*function)(const sass::Instruction&, std::uint32_t) = nullptr;
  switch (instruction.opcode) {
    case Opcode::i2f:
    case Opcode::i2fp:
      function = to_float;
      break;
    case Opcode::f2i:
      function = to_integer;
      break;
    case Opcode::mufu:
      if (!instruction.has(Modifier::rcp)) return false;
      function = reciprocal;
      break;
    default:
      return false;
  }
  const sass::Operand& operand = instruction.operands[1];
  if (is_wide || operand.negated || operand.absolute) return false;
  const KnownLanes from = source(operand);
  if ((from.known & certain_) == 0) return false;
  KnownLanes made;
  made.known = from.known;
  made.loaded = from.loaded;
  for (unsigned i = 0; i < sass::k_lanes; ++i) {
    made.lanes[i] = function(instruction, from.lanes[i]);
  }
  write(instruction.operands[0], made);
  return true;
}

}  // namespace spjit
