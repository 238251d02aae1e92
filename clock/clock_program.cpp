#include "clock/clock_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sass/decode.hpp"
#include "sass/dependencies.hpp"
#include "sass/patching.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using sass::Modifier;
using sass::Opcode;

ClockUnit unit_of(const sass::Instruction& instruction) {
  using enum Opcode;
  switch (instruction.opcode) {
    case fadd:
    case ffma:
    case fmul:
      return ClockUnit::fp32;
    case hfma2:
      return ClockUnit::half;
    case ld:
    case ldg:
    case st:
    case stg:
      return ClockUnit::global;
    case ldl:
    case stl:
      return ClockUnit::local;
    case lds:
    case sts:
      return ClockUnit::shared;
    case ldc:
      return ClockUnit::constant;
    case uflo:
    case uiadd3:
    case uimad:
    case uisetp:
    case uldc:
    case ulea:
    case ulop3:
    case umov:
    case usel:
    case ushf:
    case voteu:
      return ClockUnit::uniform;
    case bar:
    case bmov:
    case bra:
    case break_:
    case brx:
    case brxu:
    case bssy:
    case bsync:
    case call:
    case endcollective:
    case exit:
    case nop:
    case ret:
    case warpsync:
    case yield:
      return ClockUnit::control;
    default:
      return has_fixed_latency(instruction) ? ClockUnit::integer : ClockUnit::special;
  }
}

std::uint8_t width_of(const sass::Instruction& instruction) {
  if (instruction.has(Modifier::u8) || instruction.has(Modifier::s8)) return 1;
  if (instruction.has(Modifier::u16) || instruction.has(Modifier::s16)) return 2;
  if (instruction.has(Modifier::b64)) return 8;
  return instruction.has(Modifier::b128) ? 16 : 4;
}

/// Whether an operation's results are numbers of the problem, which the clock does not compute.
bool computes_values(Opcode opcode) {
  using enum Opcode;
  switch (opcode) {
    case f2i:
    case fadd:
    case fchk:
    case ffma:
    case fmnmx:
    case fmul:
    case frnd:
    case fsel:
    case fsetp:
    case hfma2:
    case i2f:
    case i2fp:
    case mufu:
      return true;
    default:
      return false;
  }
}

ClockOperation operation_of(const sass::Instruction& instruction, std::uint32_t function) {
  ClockOperation operation;
  operation.instruction = instruction;
  operation.function = function;
  operation.unit = unit_of(instruction);
  const Opcode opcode = instruction.opcode;
  operation.is_load = opcode == Opcode::ld || opcode == Opcode::ldg || opcode == Opcode::ldl ||
                      opcode == Opcode::lds;
  operation.is_store = opcode == Opcode::st || opcode == Opcode::stg || opcode == Opcode::stl ||
                       opcode == Opcode::sts;
  operation.width_bytes = width_of(instruction);
  operation.has_values = !computes_values(opcode);
  return operation;
}

class Loader {
 public:
  explicit Loader(sass::CubinCode code) : code_(std::move(code)) {}

  ClockProgram load() {
    if (code_.info.relocatable) {
      throw NotSupported("a relocatable cubin has no time of its own; it has to be linked");
    }
    program_.arch = code_.arch();
    place();
    for (std::size_t i = 0; i < code_.functions.size(); ++i) add_operations(i);
    for (const CubinKernel& kernel : code_.info.kernels) add_kernel(kernel);
    program_.code_bytes = program_.operations.size() * sass::k_instruction_bytes;
    program_.sections = std::move(code_.functions);
    return std::move(program_);
  }

 private:
  void place() {
    std::uint32_t first = 0;
    for (const sass::Function& function : code_.functions) {
      const auto count = static_cast<std::uint32_t>(function.instructions.size());
      addresses_[function.section] =
          k_clock_code_base + std::uint64_t{first} * sass::k_instruction_bytes;
      program_.functions.push_back({function.name, first, count});
      first += count;
    }
    std::uint64_t next = k_clock_globals_base;
    for (const sass::GlobalSection& global : code_.globals) {
      addresses_[global.section] = next;
      constexpr std::uint64_t alignment = 256;
      next += (global.size + alignment - 1) / alignment * alignment;
    }
  }

  [[nodiscard]] std::uint64_t address_of(const sass::Relocation& relocation) const {
    const auto found = addresses_.find(relocation.section);
    if (found == addresses_.end()) {
      throw NotSupported(fmt::format("the cubin has no {}", relocation.symbol));
    }
    return found->second + static_cast<std::uint64_t>(relocation.value);
  }

  void add_operations(std::size_t index) {
    const sass::Function& function = code_.functions[index];
    std::vector<sass::Instruction> instructions = function.instructions;
    for (const sass::Relocation& relocation : function.relocations) {
      const std::size_t at = relocation.offset / sass::k_instruction_bytes;
      if (relocation.offset % sass::k_instruction_bytes != 0 || at >= instructions.size()) {
        throw Error(fmt::format("{}: a relocation inside an instruction",
                                function.place(relocation.offset)));
      }
      const sass::Encoding code =
          sass::patched(instructions[at].encoding, relocation.kind, address_of(relocation));
      instructions[at] = sass::decode(code, relocation.offset, code_.arch());
    }
    for (const sass::Instruction& instruction : instructions) {
      program_.operations.push_back(operation_of(instruction, static_cast<std::uint32_t>(index)));
      set_target(program_.operations.back());
    }
  }

  void set_target(ClockOperation& operation) const {
    const ClockFunction& function = program_.functions[operation.function];
    const std::int64_t last = std::int64_t{function.count} * sass::k_instruction_bytes;
    for (const sass::Operand& operand : operation.instruction.operands) {
      if (operand.kind != sass::OperandKind::target) continue;
      if (operand.value % sass::k_instruction_bytes != 0 || operand.value < 0 ||
          operand.value >= last) {
        // The base of a distance that a register holds may lie anywhere.
        if (operation.instruction.operands[0].is_register()) continue;
        throw Error(fmt::format("'{}' goes beyond its function", to_text(operation.instruction)));
      }
      operation.target =
          function.first + static_cast<std::uint32_t>(operand.value / sass::k_instruction_bytes);
    }
  }

  void add_kernel(const CubinKernel& info) {
    ClockKernel kernel;
    kernel.info = info;
    const auto found = std::ranges::find(program_.functions, info.name, &ClockFunction::name);
    if (found == program_.functions.end()) {
      throw Error(fmt::format("the cubin has no code for {}", info.name));
    }
    kernel.entry = found->first;
    for (const sass::ConstantBank& bank : code_.constants) {
      if (bank.bank == 0 || (!bank.kernel.empty() && bank.kernel != info.name)) continue;
      std::vector<std::byte> bytes = bank.bytes;
      for (const sass::Relocation& relocation : bank.relocations) {
        const std::uint64_t address = address_of(relocation);
        if (relocation.kind != sass::RelocationKind::address64 ||
            relocation.offset + sizeof address > bytes.size()) {
          throw Error("an address in a constant bank is not of 64 bits, or beyond it");
        }
        std::memcpy(bytes.data() + relocation.offset, &address, sizeof address);
      }
      kernel.constants[bank.bank] = std::move(bytes);
    }
    program_.kernels.push_back(std::move(kernel));
  }

  sass::CubinCode code_;
  ClockProgram program_;
  std::map<std::uint32_t, std::uint64_t> addresses_;  ///< of sections
};

}  // namespace

std::string ClockProgram::describe(std::uint32_t operation) const {
  const ClockOperation& found = operations[operation];
  return fmt::format("{}: '{}'", sections[found.function].place(found.instruction.offset),
                     to_text(found.instruction));
}

const ClockKernel& ClockProgram::kernel(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const ClockKernel& kernel : kernels) {
    if (kernel.info.name == name) return kernel;
    names.push_back(kernel.info.name);
  }
  throw InvalidArgument(
      fmt::format("the cubin has no kernel \"{}\"; it has {}", name,
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

ClockProgram load_clock_program(std::span<const std::byte> cubin) {
  return Loader(sass::read_cubin_code(cubin)).load();
}

}  // namespace spjit
