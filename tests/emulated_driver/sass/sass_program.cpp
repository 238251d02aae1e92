#include "emulated_driver/sass/sass_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulated_driver/program_error.hpp"
#include "sass/decode.hpp"
#include "sass/patching.hpp"

namespace spjit::emulated {

namespace {

using sass::RelocationKind;

[[noreturn]] void refuse(const std::string& message) {
  throw ProgramError(FaultKind::invalid_cubin, message);
}

std::span<const std::uint8_t> as_bytes(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// Lays a cubin out: code at addresses of its own, variables in the device's memory.
class Loader {
 public:
  Loader(sass::CubinCode code, GlobalMemory& memory) : code_(std::move(code)), memory_(memory) {}

  SassProgram load() {
    program_.arch = code_.arch();
    if (code_.info.relocatable) refuse("a relocatable cubin has to be linked");
    place_functions();
    place_globals();
    for (std::size_t i = 0; i < code_.functions.size(); ++i) add_operations(i);
    for (const CubinKernel& kernel : code_.info.kernels) add_kernel(kernel);
    return std::move(program_);
  }

 private:
  void place_functions() {
    std::uint32_t first = 0;
    for (const sass::Function& function : code_.functions) {
      const auto count = static_cast<std::uint32_t>(function.instructions.size());
      section_addresses_[function.section] = program_.address_of(first);
      program_.functions.push_back({function.name, first, count, function.labels});
      first += count;
    }
  }

  void place_globals() {
    for (const sass::GlobalSection& global : code_.globals) {
      Allocation* allocation = memory_.allocate(std::max<std::uint64_t>(global.size, 1));
      if (allocation == nullptr) refuse("the device has no room for the cubin's variables");
      std::vector<std::uint8_t> bytes(global.size);
      std::memcpy(bytes.data(), global.bytes.data(), global.bytes.size());
      allocation->contents.write(0, bytes);
      section_addresses_[global.section] = allocation->address;
      program_.globals.emplace_back(memory_, *allocation);
    }
    for (const sass::GlobalVariable& variable : code_.variables) {
      program_.variables.push_back({variable.name,
                                    section_addresses_.at(variable.section) + variable.offset,
                                    variable.size});
    }
  }

  [[nodiscard]] Address address_of(const sass::Relocation& relocation) const {
    const auto found = section_addresses_.find(relocation.section);
    if (found == section_addresses_.end()) {
      throw ProgramError(FaultKind::unresolved_symbol,
                         fmt::format("the cubin has no {}", relocation.symbol));
    }
    return found->second + static_cast<Address>(relocation.value);
  }

  void add_operations(std::size_t index) {
    const sass::Function& function = code_.functions[index];
    std::vector<sass::Instruction> instructions = function.instructions;
    for (const sass::Relocation& relocation : function.relocations) {
      const std::size_t at = relocation.offset / sass::k_instruction_bytes;
      if (relocation.offset % sass::k_instruction_bytes != 0 || at >= instructions.size()) {
        refuse(fmt::format("{}: a relocation inside an instruction",
                           function.place(relocation.offset)));
      }
      const sass::Encoding code =
          sass::patched(instructions[at].encoding, relocation.kind, address_of(relocation));
      instructions[at] = sass::decode(code, relocation.offset, code_.arch());
    }
    for (const sass::Instruction& instruction : instructions) {
      try {
        program_.operations.push_back(operation_of(instruction, index));
      } catch (const ProgramError& error) {
        throw ProgramError(error.kind(),
                           fmt::format("{}: {}", function.place(instruction.offset), error.what()));
      }
    }
  }

  [[nodiscard]] SassOperation operation_of(const sass::Instruction& instruction,
                                           std::size_t index) const {
    SassOperation operation = make_operation(instruction);
    operation.function = static_cast<std::uint32_t>(index);
    const SassFunction& function = program_.functions[index];
    for (const sass::Operand& operand : instruction.operands) {
      if (operand.kind != sass::OperandKind::target) continue;
      const bool is_base = instruction.operands[0].is_register();  // of a distance in a register
      const std::int64_t last = std::int64_t{function.count} * sass::k_instruction_bytes;
      if (operand.value % sass::k_instruction_bytes != 0 || operand.value < 0 ||
          operand.value >= last) {
        if (is_base) continue;
        refuse(fmt::format("'{}' goes beyond its function", to_text(instruction)));
      }
      operation.target =
          function.first + static_cast<std::uint32_t>(operand.value / sass::k_instruction_bytes);
    }
    return operation;
  }

  void add_kernel(const CubinKernel& info) {
    SassKernel kernel;
    kernel.info = info;
    const auto found = std::ranges::find(program_.functions, info.name, &SassFunction::name);
    if (found == program_.functions.end()) refuse(fmt::format("no code for {}", info.name));
    kernel.function = static_cast<std::uint32_t>(found - program_.functions.begin());
    for (const sass::ConstantBank& bank : code_.constants) {
      if (bank.bank == 0 || (!bank.kernel.empty() && bank.kernel != info.name)) continue;
      if (bank.bank < 0 || static_cast<std::size_t>(bank.bank) >= k_constant_banks) {
        refuse(fmt::format("constant bank {}", bank.bank));
      }
      kernel.constants.fill(static_cast<std::size_t>(bank.bank), as_bytes(patched_bank(bank)));
    }
    check_registers(kernel);
    program_.kernels.push_back(std::move(kernel));
  }

  [[nodiscard]] std::vector<std::byte> patched_bank(const sass::ConstantBank& bank) const {
    std::vector<std::byte> bytes = bank.bytes;
    for (const sass::Relocation& relocation : bank.relocations) {
      if (relocation.kind != RelocationKind::address64) {
        refuse("an address in a constant bank is not of 64 bits");
      }
      const Address address = address_of(relocation);
      std::memcpy(bytes.data() + relocation.offset, &address, sizeof address);
    }
    return bytes;
  }

  [[nodiscard]] bool is_kernel(const std::string& function) const {
    return std::ranges::find(code_.info.kernels, function, &CubinKernel::name) !=
           code_.info.kernels.end();
  }

  /// A thread has as many registers as the kernel says, also in what it may call: any function that
  /// is no kernel.
  void check_registers(const SassKernel& kernel) const {
    for (std::uint32_t function = 0; function < program_.functions.size(); ++function) {
      const SassFunction& code = program_.functions[function];
      if (function == kernel.function || !is_kernel(code.name)) check_registers(kernel, code);
    }
  }

  void check_registers(const SassKernel& kernel, const SassFunction& code) const {
    for (std::uint32_t i = code.first; i < code.first + code.count; ++i) {
      const SassOperation& operation = program_.operations[i];
      const auto check = [&](RegisterIndex index) {
        if (index >= k_uniform_base || index < kernel.info.registers) return;
        refuse(fmt::format("{}: '{}' names R{}, but {} has {} registers", program_.place_text(i),
                           to_text(operation.instruction), index, kernel.info.name,
                           kernel.info.registers));
      };
      for (const SourceRegister& source : operation.sources) check(source.index);
      for (const ResultRegister& result : operation.results) check(result.index);
    }
  }

  sass::CubinCode code_;
  GlobalMemory& memory_;
  SassProgram program_;
  std::map<std::uint32_t, Address> section_addresses_;
};

}  // namespace

std::string SassProgram::place_text(std::uint32_t operation) const {
  const SassOperation& found = operations[operation];
  const SassFunction& function = functions[found.function];
  const std::uint32_t offset = found.instruction.offset;
  const auto after = std::ranges::upper_bound(function.labels, offset, {}, &sass::Label::offset);
  if (after == function.labels.begin()) return fmt::format("{}+{:#x}", function.name, offset);
  const sass::Label& label = *std::prev(after);
  return fmt::format("{}+{:#x}", label.name, offset - label.offset);
}

std::uint32_t SassProgram::operation_at(Address address) const {
  const Address offset = address - k_code_base;
  const Address index = offset / sass::k_instruction_bytes;
  if (address < k_code_base || offset % sass::k_instruction_bytes != 0 ||
      index >= operations.size()) {
    throw ProgramError(FaultKind::illegal_address,
                       fmt::format("goes to {:#x}, where no instruction is", address));
  }
  return static_cast<std::uint32_t>(index);
}

SassProgram load_cubin(std::span<const std::byte> cubin, int arch, GlobalMemory& memory) {
  try {
    const auto made_for = static_cast<int>(read_cubin_info(cubin).arch);
    // A device runs cubins of its own major version, up to its minor one.
    if (made_for / 10 != arch / 10 || made_for > arch) {
      throw ProgramError(FaultKind::other_architecture,
                         fmt::format("a cubin of sm_{} does not run on sm_{}", made_for, arch));
    }
    return Loader(sass::read_cubin_code(cubin), memory).load();
  } catch (const ProgramError&) {
    throw;
  } catch (const Error& error) {
    refuse(error.what());
  }
}

}  // namespace spjit::emulated
