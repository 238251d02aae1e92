// MOV UMOV ULDC S2R S2UR CS2R R2UR SHFL BMOV

#include <fmt/format.h>

#include "emulated_driver/sass/handlers.hpp"
#include "sass/launch_constants.hpp"

namespace spjit::emulated {

namespace {

using sass::Modifier;
using sass::Opcode;

void mov(Warp& warp, const SassOperation& operation) {
  Lanes room;
  warp.write(operation.at(0), warp.integers(operation.at(1), room));
}

void umov(Warp& warp, const SassOperation& operation) {
  warp.write_scalar(operation.at(0), warp.scalar(operation.at(1)));
}

std::uint32_t width_of(const sass::Instruction& instruction) {
  if (instruction.has(Modifier::u8) || instruction.has(Modifier::s8)) return 1;
  if (instruction.has(Modifier::u16) || instruction.has(Modifier::s16)) return 2;
  return instruction.has(Modifier::b64) ? 8 : 4;
}

std::uint64_t extended(const sass::Instruction& instruction, std::uint64_t value) {
  if (instruction.has(Modifier::s8)) {
    return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(value)});
  }
  if (instruction.has(Modifier::s16)) {
    return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int16_t>(value)});
  }
  return value;
}

std::uint64_t constant_at(const Warp& warp, const SassOperation& operation, std::uint64_t base) {
  const sass::Operand& from = operation.at(1);
  const std::int64_t offset = from.value + static_cast<std::int64_t>(base);
  return extended(operation.instruction,
                  warp.block().constants->read(from.bank, offset, width_of(operation.instruction)));
}

void uldc(Warp& warp, const SassOperation& operation) {
  const sass::Operand& from = operation.at(1);
  const bool has_base = from.uniform != sass::k_zero_uniform;
  const std::uint64_t value =
      constant_at(warp, operation, has_base ? warp.registers().uniform(from.uniform) : 0);
  warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(value & 0xffffffff));
  if (operation.at(0).registers == 2) {
    warp.write_scalar(operation.at(0), static_cast<std::uint32_t>(value >> 32), 1);
  }
}

void ldc(Warp& warp, const SassOperation& operation) {
  const Lanes& base = warp.registers().lanes(operation.at(1).number);
  Lanes d = {};
  Lanes d_high = {};
  for_each_lane(warp.exec(), [&](unsigned i) {
    const std::uint64_t value = constant_at(warp, operation, base[i]);
    d[i] = static_cast<std::uint32_t>(value & 0xffffffff);
    d_high[i] = static_cast<std::uint32_t>(value >> 32);
  });
  warp.write(operation.at(0), d);
  if (operation.at(0).registers == 2) warp.write(operation.at(0), d_high, 1);
}

/// What is the same in all lanes.
std::uint32_t special(const Warp& warp, std::uint8_t number) {
  if (number >= sass::k_ctaid_x && number <= sass::k_ctaid_z)
    return warp.block().index[number - sass::k_ctaid_x];
  switch (number) {
    case sass::k_local_window_high:
      return static_cast<std::uint32_t>(k_local_window >> 32);
    case sass::k_shared_window_high:
      return static_cast<std::uint32_t>(k_shared_window >> 32);
    case sass::k_clock_low:
      return static_cast<std::uint32_t>(warp.clock() & 0xffffffff);
    case sass::k_cta_of_cluster:  // a cluster is one block
    case sass::k_special_zero:
      return 0;
    default:
      throw ProgramError(FaultKind::trap,
                         fmt::format("{} is not emulated", sass::special_register_name(number)));
  }
}

std::uint32_t thread_index(const Warp& warp, unsigned lane, unsigned dimension) {
  const auto& [bx, by, bz] = warp.block().shape.block;
  const std::uint32_t thread = warp.index() * k_lanes + lane;
  return dimension == 0 ? thread % bx : dimension == 1 ? thread / bx % by : thread / bx / by;
}

void s2r(Warp& warp, const SassOperation& operation) {
  const std::uint8_t number = operation.at(1).number;
  Lanes d;
  for (unsigned i = 0; i < k_lanes; ++i) {
    if (number == sass::k_lane_id) {
      d[i] = i;
    } else if (number >= sass::k_tid_x && number <= sass::k_tid_z) {
      d[i] = thread_index(warp, i, number - sass::k_tid_x);
    } else {
      d[i] = special(warp, number);
    }
  }
  warp.write(operation.at(0), d);
}

void s2ur(Warp& warp, const SassOperation& operation) {
  warp.write_scalar(operation.at(0), special(warp, operation.at(1).number));
}

void cs2r(Warp& warp, const SassOperation& operation) {
  const std::uint8_t number = operation.at(1).number;
  Lanes d;
  d.values.fill(special(warp, number));
  warp.write(operation.at(0), d);
  d.values.fill(number == sass::k_clock_low ? static_cast<std::uint32_t>(warp.clock() >> 32) : 0);
  if (operation.at(0).registers == 2) warp.write(operation.at(0), d, 1);
}

// A warp has one value: lanes that differ would lose theirs.
void r2ur(Warp& warp, const SassOperation& operation) {
  const Lanes& from = warp.registers().lanes(operation.at(1).number);
  const auto first = static_cast<unsigned>(__builtin_ctz(warp.exec()));
  for_each_lane(warp.exec(), [&](unsigned i) {
    if (from[i] == from[first]) return;
    throw ProgramError(FaultKind::trap, fmt::format("lanes {} and {} hold {:#x} and {:#x}", first,
                                                    i, from[first], from[i]));
  });
  warp.write_scalar(operation.at(0), from[first]);
}

/// Where a lane reads from, as PTX states it for `shfl`: `c` has a mask that parts the warp, and
/// the last lane, or for .UP the first, that may be read.
struct Shuffle {
  unsigned lane = 0;
  bool is_inside = false;
};

Shuffle shuffled(Modifier mode, unsigned lane, std::uint32_t b, std::uint32_t c) {
  const unsigned clamp = c & 31;
  const unsigned mask = c >> 8 & 31;
  const unsigned last = (lane & mask) | (clamp & ~mask);
  const unsigned first = lane & mask;
  const unsigned distance = b & 31;
  switch (mode) {
    case Modifier::up: {
      const bool is_inside = lane >= distance && lane - distance >= last;
      return {is_inside ? lane - distance : lane, is_inside};
    }
    case Modifier::down: {
      const bool is_inside = lane + distance <= last;
      return {is_inside ? lane + distance : lane, is_inside};
    }
    case Modifier::bfly: {
      const unsigned from = lane ^ distance;
      return {from <= last ? from : lane, from <= last};
    }
    default: {
      const unsigned from = first | (distance & ~mask);
      return {from <= last ? from : lane, from <= last};
    }
  }
}

void shfl(Warp& warp, const SassOperation& operation) {
  Lanes room_a;
  Lanes room_b;
  Lanes room_c;
  Lanes d = {};
  const Lanes& a = warp.integers(operation.at(2), room_a);
  const Lanes& b = warp.integers(operation.at(3), room_b);
  const Lanes& c = warp.integers(operation.at(4), room_c);
  LaneMask inside = 0;
  for_each_lane(warp.exec(), [&](unsigned i) {
    const Shuffle from = shuffled(operation.instruction.modifiers[0], i, b[i], c[i]);
    if ((warp.exec() >> from.lane & 1) == 0) {
      throw ProgramError(FaultKind::uninitialized_read,
                         fmt::format("lane {} reads lane {}, which is not there", i, from.lane));
    }
    d[i] = a[from.lane];
    inside |= LaneMask{from.is_inside} << i;
  });
  warp.write(operation.at(1), d);
  warp.write_predicate(operation.at(0), inside);
}

// The lanes of a convergence barrier, as a mask.
void bmov(Warp& warp, const SassOperation& operation) {
  const bool is_from = operation.at(0).kind == sass::OperandKind::reg;
  const unsigned barrier = operation.at(is_from ? 1 : 0).number;
  Convergence& convergence = warp.convergence();
  if (is_from) {
    Lanes d;
    d.values.fill(convergence.members(barrier));
    warp.write(operation.at(0), d);
    if (operation.instruction.has(Modifier::clear)) convergence.set_members(barrier, 0);
    return;
  }
  const auto first = static_cast<unsigned>(__builtin_ctz(warp.exec()));
  convergence.set_members(barrier, warp.registers().lanes(operation.at(1).number)[first]);
}

}  // namespace

SassHandler move_handler(const sass::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::mov:
      return mov;
    case Opcode::umov:
      return umov;
    case Opcode::uldc:
      return uldc;
    case Opcode::ldc:
      return ldc;
    case Opcode::s2r:
      return s2r;
    case Opcode::s2ur:
      return s2ur;
    case Opcode::cs2r:
      return cs2r;
    case Opcode::r2ur:
      return r2ur;
    case Opcode::shfl:
      return shfl;
    case Opcode::bmov:
      return bmov;
    default:
      return nullptr;
  }
}

}  // namespace spjit::emulated
