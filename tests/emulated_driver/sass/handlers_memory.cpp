// LDG LD LDS LDL STG ST STS STL

#include <cstring>

#include "emulated_driver/sass/handlers.hpp"

namespace spjit::emulated {

namespace {

using sass::Modifier;
using sass::Opcode;

AccessSpace space_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::ldg:
    case Opcode::stg:
      return AccessSpace::global;
    case Opcode::lds:
    case Opcode::sts:
      return AccessSpace::shared;
    case Opcode::ldl:
    case Opcode::stl:
      return AccessSpace::local;
    default:
      return AccessSpace::generic;
  }
}

std::uint32_t width_of(const sass::Instruction& instruction) {
  if (instruction.has(Modifier::u8) || instruction.has(Modifier::s8)) return 1;
  if (instruction.has(Modifier::u16) || instruction.has(Modifier::s16)) return 2;
  if (instruction.has(Modifier::b64)) return 8;
  return instruction.has(Modifier::b128) ? 16 : 4;
}

std::uint32_t extended(const sass::Instruction& instruction, std::uint32_t value) {
  if (instruction.has(Modifier::s8)) {
    return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int8_t>(value)});
  }
  if (instruction.has(Modifier::s16)) {
    return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(value)});
  }
  return value;
}

/// Lanes of a load whose word `i` has a byte that was never written.
using MissingWords = std::array<LaneMask, 4>;

void add_missing(MissingWords& missing, unsigned lane, const Place& place, std::uint32_t width) {
  for (std::uint32_t byte = 0; byte < width; ++byte) {
    if (place.defined[byte] == 0) missing[byte / 4] |= LaneMask{1} << lane;
  }
}

/// Of shared memory ptxas loads more than is used, two words for one: what was never written is an
/// error where it is used.
void load(Warp& warp, const SassOperation& operation) {
  const std::uint32_t width = width_of(operation.instruction);
  const LaneAccess access =
      warp.access(operation, space_of(operation.instruction.opcode), width, false);
  warp.observe(access);
  const bool is_shared = access.space == AccessSpace::shared;
  MissingWords missing = {};
  std::array<Lanes, 4> words = {};
  warp.for_each_place(access, [&](unsigned lane, const Place& place) {
    if (is_shared) {
      add_missing(missing, lane, place, width);
    } else {
      check_defined(place, access.addresses[lane], width);
    }
    std::array<std::uint32_t, 4> read = {};
    std::memcpy(read.data(), place.bytes, width);
    for (std::size_t i = 0; i < words.size(); ++i) words[i][lane] = read[i];
    words[0][lane] = extended(operation.instruction, read[0]);
  });
  for (unsigned i = 0; i < operation.at(0).registers; ++i) {
    warp.write(operation.at(0), words[i], i);
    if (missing[i] == 0 || operation.at(0).is_fixed()) continue;
    const unsigned number = operation.at(0).number + i;
    warp.registers().forget(register_index(sass::OperandKind::reg, number), missing[i]);
  }
}

void store(Warp& warp, const SassOperation& operation) {
  const std::uint32_t width = width_of(operation.instruction);
  const LaneAccess access =
      warp.access(operation, space_of(operation.instruction.opcode), width, true);
  warp.observe(access);
  const sass::Operand& data = operation.at(1);
  const bool is_zero = data.number == sass::k_zero_register;
  warp.for_each_place(access, [&](unsigned lane, const Place& place) {
    std::array<std::uint32_t, 4> written = {};
    for (unsigned i = 0; i < data.registers; ++i) {
      written[i] = warp.registers().lanes(is_zero ? data.number : data.number + i)[lane];
    }
    std::memcpy(place.bytes, written.data(), width);
    std::memset(place.defined, 1, width);
  });
}

}  // namespace

SassHandler memory_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::ld:
    case Opcode::ldg:
    case Opcode::ldl:
    case Opcode::lds:
      return load;
    case Opcode::st:
    case Opcode::stg:
    case Opcode::stl:
    case Opcode::sts:
      return store;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
