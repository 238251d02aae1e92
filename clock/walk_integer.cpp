// What integers a warp computes: IADD3 IMAD LEA ... of lanes, and of the uniform datapath.

#include <bit>

#include "clock/warp_walker.hpp"
#include "sass/integer_values.hpp"

namespace spjit {
namespace {

using sass::k_lanes;
using sass::LaneMask;
using sass::Modifier;
using sass::Opcode;

sass::Operand without_signs(const sass::Operand& operand) {
  sass::Operand plain = operand;
  plain.negated = false;
  plain.inverted = false;
  return plain;
}

/// Negation is the sum's business; bits are inverted before.
sass::Operand without_negation(const sass::Operand& operand) {
  sass::Operand plain = operand;
  plain.negated = false;
  return plain;
}

std::uint32_t low_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value & 0xffffffff);
}

}  // namespace

template <class Function>
void WarpWalk::lanes_of(const ClockOperation& operation, std::size_t first, std::size_t count,
                        Function&& function) {
  std::array<KnownLanes, 3> sources;
  KnownLanes made;
  made.known = sass::k_all_lanes;
  for (std::size_t i = 0; i < count; ++i) {
    sources[i] = source(operation.instruction.operands[first + i]);
    made.known &= sources[i].known;
    made.loaded |= sources[i].loaded;
  }
  if ((made.known & certain_) != 0) {
    for (unsigned i = 0; i < k_lanes; ++i) {
      made.lanes[i] = function(sources[0].lanes[i], sources[1].lanes[i], sources[2].lanes[i]);
    }
  }
  write(operation.instruction.operands[0], made);
}

void WarpWalk::iadd3(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  std::array<KnownLanes, 3> values;
  std::array<bool, 3> is_negated = {};
  const KnownMask first_carry = mask(operands[6]);
  const KnownMask second_carry = mask(operands[7]);
  KnownLanes made;
  made.known = first_carry.known & second_carry.known;
  for (std::size_t i = 0; i < 3; ++i) {
    const sass::Operand& operand = operands[3 + i];
    is_negated[i] = operand.negated;
    values[i] = source(without_negation(operand));
    made.known &= values[i].known;
    made.loaded |= values[i].loaded;
  }
  LaneMask once = 0;
  LaneMask twice = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    std::uint64_t sum = (first_carry.values >> i & 1) + (second_carry.values >> i & 1);
    for (std::size_t k = 0; k < 3; ++k) {
      sum = sass::plus(sum, {values[k].lanes[i], is_negated[k]});
    }
    made.lanes[i] = low_word(sum);
    once |= LaneMask{sum >> 32 >= 1} << i;
    twice |= LaneMask{sum >> 32 >= 2} << i;
  }
  const LaneMask known = made.known;
  write(operands[0], made);
  write_mask(operands[1], {once, known});
  write_mask(operands[2], {twice, known});
}

void WarpWalk::imad(const ClockOperation& operation) {
  const sass::Imad kind = sass::imad_of(operation.instruction);
  const auto& operands = operation.instruction.operands;
  const std::size_t first = kind.has_carry_out ? 2 : 1;
  const sass::Operand& c_operand = operands[first + 2];
  const sass::Operand plain = without_signs(c_operand);
  const KnownLanes a = source(operands[first]);
  const KnownLanes b = source(operands[first + 1]);
  const KnownLanes c = source(plain);
  const KnownLanes c_high = kind.has_pair ? source(plain, 1) : c;
  const KnownMask carry = mask(operands[first + 3]);
  KnownLanes made;
  KnownLanes high;
  made.known = high.known = a.known & b.known & c.known & c_high.known & carry.known;
  made.loaded = high.loaded = a.loaded | b.loaded | c.loaded | c_high.loaded;
  LaneMask carries = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint64_t added =
        sass::signed_pair(c.lanes[i], kind.has_pair ? c_high.lanes[i] : 0, c_operand);
    const sass::WideSum sum =
        sass::imad_value(kind, a.lanes[i], b.lanes[i], added, (carry.values >> i & 1) != 0);
    made.lanes[i] = low_word(sum.value);
    high.lanes[i] = static_cast<std::uint32_t>(sum.value >> 32);
    carries |= LaneMask{sum.carries} << i;
  }
  write(operands[0], made);
  if (kind.is_wide) write(operands[0], high, 1);
  if (kind.has_carry_out) write_mask(operands[1], {carries, made.known});
}

void WarpWalk::lea(const ClockOperation& operation) {
  const sass::Lea kind = sass::lea_of(operation.instruction);
  const auto& operands = operation.instruction.operands;
  const KnownLanes a = source(operands[2]);
  const KnownLanes b = source(operands[3]);
  const KnownLanes c = source(operands[4]);
  const KnownMask carry = mask(operands[6]);
  KnownLanes made;
  made.known = a.known & b.known & c.known & carry.known;
  made.loaded = a.loaded | b.loaded | c.loaded;
  LaneMask carries = 0;
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint64_t sum =
        sass::lea_value(kind, a.lanes[i], b.lanes[i], c.lanes[i], (carry.values >> i & 1) != 0);
    made.lanes[i] = low_word(sum);
    carries |= LaneMask{sum >> 32 != 0} << i;
  }
  write(operands[0], made);
  write_mask(operands[1], {carries, made.known});
}

bool WarpWalk::integers(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  switch (instruction.opcode) {
    case Opcode::iadd3:
      iadd3(operation);
      return true;
    case Opcode::imad:
      imad(operation);
      return true;
    case Opcode::lea:
      lea(operation);
      return true;
    case Opcode::shf:
      lanes_of(operation, 1, 3, [kind = sass::shift_of(instruction)](auto a, auto b, auto c) {
        return sass::shifted(kind, a, b, c);
      });
      return true;
    case Opcode::prmt:
      lanes_of(operation, 1, 3, [](auto a, auto b, auto c) { return sass::permuted(a, b, c); });
      return true;
    case Opcode::viadd:
      lanes_of(operation, 1, 2, [](auto a, auto b, auto /*c*/) { return a + b; });
      return true;
    case Opcode::iabs:
      lanes_of(operation, 1, 1, [](auto a, auto /*b*/, auto /*c*/) { return sass::magnitude(a); });
      return true;
    case Opcode::popc:
      lanes_of(operation, 1, 1, [](auto a, auto /*b*/, auto /*c*/) {
        return static_cast<std::uint32_t>(std::popcount(a));
      });
      return true;
    default:
      return extrema(operation);
  }
}

/// The predicate that says which of the two it is has one value for all lanes.
bool WarpWalk::extrema(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const Opcode opcode = instruction.opcode;
  const bool has_three = opcode == Opcode::vimnmx3 || opcode == Opcode::viaddmnmx;
  if (!has_three && opcode != Opcode::imnmx && opcode != Opcode::vimnmx) return false;
  const KnownMask holds = mask(instruction.operands[has_three ? 4 : 3]);
  if (holds.known != sass::k_all_lanes) return false;
  const bool is_signed = !instruction.has(Modifier::u32);
  const auto extremum = [is_signed, is_min = (holds.values & 1) != 0](auto a, auto b) {
    return sass::extremum(a, b, is_signed, is_min);
  };
  lanes_of(operation, 1, has_three ? 3 : 2, [&](auto a, auto b, auto c) {
    if (opcode == Opcode::viaddmnmx) return extremum(a + b, c);
    return has_three ? extremum(extremum(a, b), c) : extremum(a, b);
  });
  return true;
}

/// Reads and writes of an instruction of the uniform datapath. What it writes is known if all that
/// was read is.
class WarpWalk::Uniforms {
 public:
  explicit Uniforms(WarpWalk& walk) : walk_(walk) {}

  std::uint32_t take(const sass::Operand& operand, unsigned part = 0) {
    const KnownWord word = walk_.scalar(operand, part);
    is_known_ = is_known_ && word.is_known;
    is_loaded_ = is_loaded_ || word.is_loaded;
    return word.value;
  }
  bool holds(const sass::Operand& operand) {
    const KnownWord word = walk_.registers_.uniform_predicate(operand.number);
    is_known_ = is_known_ && word.is_known;
    return (word.value != 0) != operand.negated;
  }
  void put(const sass::Operand& operand, std::uint64_t value, unsigned part = 0) {
    if (operand.number == sass::k_zero_uniform) return;
    walk_.registers_.write_uniform(operand.number + part, {low_word(value), is_known_, is_loaded_});
  }
  void put_predicate(const sass::Operand& operand, bool value) {
    walk_.registers_.write_uniform_predicate(operand.number, {value ? 1U : 0U, is_known_, false});
  }

 private:
  WarpWalk& walk_;
  bool is_known_ = true;
  bool is_loaded_ = false;
};

bool WarpWalk::uniform_sums(const sass::Instruction& instruction) {
  const auto& operands = instruction.operands;
  Uniforms values(*this);
  switch (instruction.opcode) {
    case Opcode::uiadd3: {
      std::uint64_t sum =
          (values.holds(operands[6]) ? 1U : 0U) + (values.holds(operands[7]) ? 1U : 0U);
      for (std::size_t i = 3; i < 6; ++i) {
        sum = sass::plus(sum, {values.take(without_negation(operands[i])), operands[i].negated});
      }
      values.put(operands[0], sum);
      values.put_predicate(operands[1], sum >> 32 >= 1);
      values.put_predicate(operands[2], sum >> 32 >= 2);
      return true;
    }
    case Opcode::uimad: {
      const sass::Imad kind = sass::imad_of(instruction);
      const std::size_t first = kind.has_carry_out ? 2 : 1;
      const sass::Operand& c = operands[first + 2];
      const std::uint32_t low = values.take(without_signs(c));
      const std::uint32_t high = kind.has_pair ? values.take(without_signs(c), 1) : 0;
      const std::uint32_t a = values.take(operands[first]);
      const sass::WideSum sum =
          sass::imad_value(kind, a, values.take(operands[first + 1]),
                           sass::signed_pair(low, high, c), values.holds(operands[first + 3]));
      values.put(operands[0], sum.value);
      if (kind.is_wide) values.put(operands[0], sum.value >> 32, 1);
      if (kind.has_carry_out) values.put_predicate(operands[1], sum.carries);
      return true;
    }
    case Opcode::ulea: {
      const std::uint32_t a = values.take(operands[2]);
      const std::uint32_t b = values.take(operands[3]);
      const std::uint64_t sum = sass::lea_value(
          sass::lea_of(instruction), a, b, values.take(operands[4]), values.holds(operands[6]));
      values.put(operands[0], sum);
      values.put_predicate(operands[1], sum >> 32 != 0);
      return true;
    }
    default:
      return false;
  }
}

bool WarpWalk::uniforms(const ClockOperation& operation) {
  const sass::Instruction& instruction = operation.instruction;
  const auto& operands = instruction.operands;
  Uniforms values(*this);
  switch (instruction.opcode) {
    case Opcode::ulop3: {
      const std::uint32_t a = values.take(operands[2]);
      const std::uint32_t b = values.take(operands[3]);
      const std::uint32_t value = sass::by_table(a, b, values.take(operands[4]),
                                                 static_cast<std::uint32_t>(operands[5].value));
      const bool other = values.holds(operands[6]);
      values.put(operands[1], value);
      values.put_predicate(operands[0], value != 0 || other);
      return true;
    }
    case Opcode::ushf: {
      const std::uint32_t a = values.take(operands[1]);
      const std::uint32_t b = values.take(operands[2]);
      values.put(operands[0],
                 sass::shifted(sass::shift_of(instruction), a, b, values.take(operands[3])));
      return true;
    }
    case Opcode::usel: {
      const bool takes_a = values.holds(operands[3]);
      values.put(operands[0], values.take(operands[takes_a ? 1 : 2]));
      return true;
    }
    case Opcode::uisetp: {
      const std::uint32_t a = values.take(operands[2]);
      const std::uint32_t b = values.take(operands[3]);
      const bool low = values.holds(operands[5]);
      const bool result = sass::compares(instruction, a, b, low);
      const LaneMask with = values.holds(operands[4]) ? 1 : 0;
      values.put_predicate(operands[0], sass::combined(instruction, result ? 1 : 0, with) != 0);
      values.put_predicate(operands[1], sass::combined(instruction, result ? 0 : 1, with) != 0);
      return true;
    }
    case Opcode::umov:
      values.put(operands[0], values.take(operands[1]));
      return true;
    default:
      return uniform_sums(instruction);
  }
}

}  // namespace spjit
