#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulated_driver/memory.hpp"
#include "emulated_driver/ptx_type.hpp"

namespace spjit::emulated {

class Thread;
struct Instruction;

using Handler = void (*)(Thread&, const Instruction&);

/// A register's slot in the frame; with k_constant_bit set, an index into the function's constants.
using Operand = std::uint32_t;
inline constexpr Operand k_constant_bit = 1U << 31;
inline constexpr Operand k_no_operand = k_constant_bit - 1;

/// The frame's first slots are what PTX reads as special registers, then the frame's own address.
enum SpecialSlot : Operand {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  dynamic_shared,
  local_base,
  special_slots,  // clang-format off
};  // clang-format on

/// One instruction, decoded: its handler is already the right one for opcode, modifiers and types.
struct Instruction {
  Handler handler = nullptr;
  std::array<Operand, 4> operands = {k_no_operand, k_no_operand, k_no_operand, k_no_operand};
  std::int64_t displacement = 0;  ///< of an address, in bytes
  Operand guard = k_no_operand;   ///< predicate register; k_constant_bit set: executed if false
  std::uint32_t line = 0;         ///< in the source, from 1
  /// Branch target, branch table, call, first of a vector's slots, or a fifth operand.
  std::uint32_t extra = 0;
  std::uint16_t width = 0;  ///< bytes of the destination's register, or of a vector's element
  std::uint16_t flags = 0;  ///< the form's, or the number of a vector's elements
};

/// A register range as declared, `.reg .f32 %f<9>;` or one name.
struct RegisterRange {
  std::string name;
  bool numbered = false;
  std::uint32_t count = 1;
  Operand first = 0;
  Type type = Type::pred;
};

/// A function's parameter or result: in its frame's param memory, or (functions only) a register.
struct Parameter {
  std::string name;
  Type type = Type::b8;
  bool in_register = false;
  std::uint32_t location = 0;  ///< offset in bytes, or slot
  std::uint32_t size_bytes = 0;
};

/// One value handed to or back from a call.
struct Transfer {
  bool from_register = false;
  bool to_register = false;
  std::uint32_t from = 0;  ///< operand, or offset in param memory
  std::uint32_t to = 0;
  std::uint32_t size_bytes = 0;
};

struct CallSite {
  std::uint32_t function = 0;
  std::vector<Transfer> arguments;  ///< from the caller's frame to the callee's
  std::vector<Transfer> results;    ///< back
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_defined = false;
  std::vector<Parameter> results;
  std::vector<Parameter> parameters;

  std::vector<Instruction> code;
  std::vector<std::uint64_t> constants;
  std::vector<Operand> vector_slots;
  std::vector<std::vector<std::uint32_t>> branch_tables;
  std::vector<CallSite> calls;
  std::vector<RegisterRange> registers;

  std::uint32_t register_count = special_slots;
  std::uint32_t param_bytes = 0;
  std::uint32_t parameter_bytes = 0;  ///< of param_bytes, those of the parameters themselves
  std::uint32_t local_bytes = 0;
  std::uint32_t shared_bytes = 0;            ///< static: the whole module's, a multiple of 16
  std::array<std::uint32_t, 3> max_block{};  ///< .maxntid; 0: not given
  std::array<std::uint32_t, 3> exact_block{};
};

/// A module's variable in global or constant memory.
struct Variable {
  std::string name;
  OwnedAllocation storage;
};

/// A module's PTX, parsed. Functions point at one another by index.
struct Program {
  std::string source;
  int version = 0;  ///< 78 for `.version 7.8`
  int target = 0;   ///< 75 for `.target sm_75`
  std::vector<Function> functions;
  std::vector<Variable> variables;

  [[nodiscard]] const Function* find_entry(std::string_view name) const;
  /// Line `line` of the source, without the blanks around it.
  [[nodiscard]] std::string_view line_text(std::uint32_t line) const;
};

/// Parses one PTX module, or several written one after another: each `.version` begins a unit, and
/// an .extern function of one is the .visible one of another. Variables are allocated in `memory`,
/// which must outlive the program. Throws ProgramError, which names the line and its text.
[[nodiscard]] Program parse_program(std::string_view text, GlobalMemory& memory);

}  // namespace spjit::emulated
