#pragma once

/// @file
/// How decoders read one encoding: fields by their bits, operands by the places that most
/// operations share. Every bit that is set has to be read by somebody: what nobody knows is no
/// instruction.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "sass/instruction.hpp"

namespace spjit::sass {

/// Changes of a source before it is used.
enum class Sign : std::uint8_t { none, negate, negate_absolute, invert };

/// How an immediate of 32 bits is meant.
enum class Immediate : std::uint8_t { bits, signed_integer, float32 };

/// A source's place in the operand cache.
enum class Slot : std::uint8_t { a, b, c };

class Reader {
 public:
  Reader(const Encoding& encoding, std::uint32_t offset, int arch);

  [[nodiscard]] int arch() const noexcept { return arch_; }
  /// The lowest twelve bits: the operation, and in the upper three how its operands lie.
  [[nodiscard]] std::uint32_t operation() const noexcept {
    return static_cast<std::uint32_t>(instruction_.encoding[0] & 0xfff);
  }
  [[nodiscard]] std::uint32_t form() const noexcept { return operation() >> 9; }

  /// `width` bits from bit `first` on, which then count as read.
  std::uint64_t take(unsigned first, unsigned width);
  std::int64_t take_signed(unsigned first, unsigned width);
  bool flag(unsigned bit) { return take(bit, 1) != 0; }
  /// Refuses the encoding if the field has another value.
  void expect(unsigned first, unsigned width, std::uint64_t value);
  /// Throws Error, which names the 128 bits.
  [[noreturn]] void refuse() const;

  void begin(Opcode opcode) { instruction_.opcode = opcode; }
  /// Operations of the uniform datapath: registers and predicates are a warp's.
  void begin_uniform(Opcode opcode);
  /// The guard is a warp's predicate, though the operation is not of the uniform datapath.
  void guarded_by_uniform() { instruction_.guard.uniform = true; }
  void immediates(Immediate meaning) { immediate_ = meaning; }

  void add(Modifier modifier);
  void add_if(bool condition, Modifier modifier) {
    if (condition) add(modifier);
  }
  /// The modifier that a field names: `names[value]`. Modifier::none prints nothing.
  Modifier add_from(unsigned first, unsigned width, std::initializer_list<Modifier> names);

  Operand& add(const Operand& operand);
  /// Says that the last `count` operands are written; only operands that are come before them.
  void written(std::uint8_t count) { instruction_.destinations += count; }
  /// The register at bits 16 to 23.
  Operand& destination(std::uint8_t registers = 1);
  /// A predicate that is written; hidden if it is PT and may be.
  Operand& destination_predicate(unsigned first, bool always_shown);
  /// A predicate that is read, with its `!` in the bit above; hidden where it is `neutral`, the
  /// value of the four bits. No value of theirs: always shown.
  Operand& source_predicate(unsigned first, std::uint64_t neutral = 16);
  /// The register at bits 24 to 31: signs at 72 and 73.
  Operand& source_a(Sign sign, std::uint8_t registers = 1);
  /// The second of two sources, in whatever place and kind the form says.
  Operand& source_b(Sign sign, std::uint8_t registers = 1, Slot slot = Slot::b);
  /// The second and third of three.
  void sources_bc(Sign b, Sign c, std::uint8_t registers_of_c = 1);
  /// The register at bits 64 to 71: signs at 74 and 75.
  Operand& register_high(Sign sign, std::uint8_t registers = 1, Slot slot = Slot::c);
  /// The register of `width` bits at `first`, without signs or reuse.
  Operand& plain_register(OperandKind kind, unsigned first, std::uint8_t registers = 1);
  Operand& integer(std::int64_t value);
  Operand& target(std::int64_t offset);

  /// The instruction; refuses one of which bits were not read.
  Instruction finish();

 private:
  Operand& low_operand(Sign sign, std::uint8_t registers, Slot slot);
  [[nodiscard]] bool low_is_c() const noexcept;
  void sign(Operand& operand, Sign allowed, unsigned negate_bit, unsigned absolute_bit);
  void read_guard_and_control();
  void check_control() const;

  Instruction instruction_;
  Encoding unread_;
  int arch_;
  bool is_uniform_ = false;
  Immediate immediate_ = Immediate::signed_integer;
};

}  // namespace spjit::sass
