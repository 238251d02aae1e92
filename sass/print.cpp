#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "sass/instruction.hpp"

namespace spjit::sass {
namespace {

std::string hexadecimal(std::int64_t value) {
  return value < 0 ? fmt::format("-{:#x}", -static_cast<std::uint64_t>(value))
                   : fmt::format("{:#x}", value);
}

/// All digits of a float in decimal, as far as twenty tell.
std::string decimal(double value, bool is_quiet) {
  constexpr double first_in_exponent_form = 1e9;
  const std::string sign = std::signbit(value) ? "-" : "+";
  if (std::isnan(value)) return sign + (is_quiet ? "QNAN" : "SNAN");
  if (std::isinf(value)) return sign + "INF";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0";
  return std::abs(value) < first_in_exponent_form ? fmt::format("{:.20g}", value)
                                                  : fmt::format("{:.20e}", value);
}

std::string float_text(std::int64_t value) {
  constexpr std::uint32_t quiet_bit = 0x400000;
  const auto bits = static_cast<std::uint32_t>(value & 0xffffffff);
  return decimal(static_cast<double>(std::bit_cast<float>(bits)), (bits & quiet_bit) != 0);
}

std::string half_text(std::int64_t value) {
  constexpr int mantissa_bits = 10;
  constexpr int bias = 15;
  const int mantissa = static_cast<int>(value & 0x3ff);
  const int exponent = static_cast<int>(value >> mantissa_bits & 0x1f);
  double magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  if (exponent == 0x1f) {
    magnitude = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent != 0) {
    magnitude = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return decimal((value & 0x8000) != 0 ? -magnitude : magnitude, (mantissa & 0x200) != 0);
}

std::string register_name(OperandKind kind, std::uint8_t number) {
  switch (kind) {
    case OperandKind::reg:
      return number == k_zero_register ? "RZ" : fmt::format("R{}", number);
    case OperandKind::uniform:
      return number == k_zero_uniform ? "URZ" : fmt::format("UR{}", number);
    case OperandKind::predicate:
      return number == k_true ? "PT" : fmt::format("P{}", number);
    default:
      return number == k_true ? "UPT" : fmt::format("UP{}", number);
  }
}

std::string with_signs(const Operand& operand, const std::string& name) {
  const std::string_view bar = operand.absolute ? "|" : "";
  return fmt::format("{}{}{}{}{}{}", operand.negated ? "-" : "", operand.inverted ? "~" : "", bar,
                     name, bar, operand.reuse ? ".reuse" : "");
}

std::string constant_text(const Operand& operand, const Instruction& of) {
  std::string inner;
  if (operand.uniform != k_zero_uniform) {
    inner = register_name(OperandKind::uniform, operand.uniform);
  } else if (operand.number != k_zero_register) {
    inner = register_name(OperandKind::reg, operand.number);
  }
  if (inner.empty()) {
    const bool names_zero = of.opcode == Opcode::ldc && operand.value == 0;
    inner = names_zero ? "RZ" : hexadecimal(operand.value);
  } else if (operand.value != 0) {
    inner += fmt::format("+{}", hexadecimal(operand.value));
  }
  return with_signs({.kind = operand.kind,
                     .negated = operand.negated,
                     .absolute = operand.absolute,
                     .inverted = operand.inverted},
                    fmt::format("c[{:#x}][{}]", operand.bank, inner));
}

std::string address_text(const Operand& operand, const Instruction& of) {
  std::string inner;
  const auto append = [&inner](const std::string& part) {
    inner += fmt::format("{}{}", inner.empty() ? "" : "+", part);
  };
  const bool has_register = operand.number != k_zero_register || operand.scale != 1;
  const bool has_uniform = operand.uniform != k_zero_uniform;
  if (has_register || !(has_uniform || operand.value != 0)) {
    std::string name = register_name(OperandKind::reg, operand.number);
    const bool is_pair = operand.form == AddressForm::wide;
    const bool has_width = has_uniform || operand.descriptor != k_zero_uniform;
    if (has_width && is_pair) name += ".64";
    if (operand.form == AddressForm::u32_uniform) name += ".U32";
    if (operand.scale != 1) name += fmt::format(".X{}", operand.scale);
    append(name);
  }
  if (has_uniform) append(register_name(OperandKind::uniform, operand.uniform));
  if (operand.value != 0) append(hexadecimal(operand.value));
  std::string place = fmt::format("[{}]", inner);
  if (operand.descriptor == k_zero_uniform || !of.shows_descriptor) return place;
  return fmt::format("desc[{}]{}", register_name(OperandKind::uniform, operand.descriptor), place);
}

std::string operand_text(const Operand& operand, const Instruction& of) {
  switch (operand.kind) {
    case OperandKind::reg:
    case OperandKind::uniform:
      return with_signs(operand, register_name(operand.kind, operand.number));
    case OperandKind::predicate:
    case OperandKind::uniform_predicate:
      return fmt::format("{}{}", operand.negated ? "!" : "",
                         register_name(operand.kind, operand.number));
    case OperandKind::all_predicates:
      return "PR";
    case OperandKind::integer:
    case OperandKind::target:
      return hexadecimal(operand.value);
    case OperandKind::float32:
      return float_text(operand.value);
    case OperandKind::half:
      return half_text(operand.value);
    case OperandKind::constant:
      return constant_text(operand, of);
    case OperandKind::memory:
      return address_text(operand, of);
    case OperandKind::convergence:
      return fmt::format("B{}", operand.number);
    case OperandKind::special:
      return std::string(special_register_name(operand.number));
    case OperandKind::none:
      break;
  }
  return "";
}

/// What nvdisasm calls an IMAD by its operands, or nothing.
std::string_view imad_name(const Instruction& imad) {
  const Operand& a = imad.operands[1];
  const Operand& b = imad.operands[2];
  const Operand& c = imad.operands[3];
  const bool is_plain = !imad.has(Modifier::x) && !imad.has(Modifier::wide) &&
                        !imad.has(Modifier::hi) && b.kind != OperandKind::uniform &&
                        c.kind != OperandKind::uniform;
  if (imad.operands.size() != 5 || !is_plain) return "";
  const auto is_zero = [](const Operand& operand) {
    return operand.kind == OperandKind::reg && operand.is_fixed();
  };
  const bool is_immediate = b.kind == OperandKind::integer;
  if (is_zero(a) || is_zero(b) || (is_immediate && b.value == 0)) return "MOV";
  if (is_immediate && b.value == 1) return is_zero(c) ? "MOV" : "IADD";
  const bool is_power =
      is_immediate && b.value > 0 && std::has_single_bit(static_cast<std::uint64_t>(b.value));
  return is_power && is_zero(c) ? "SHL" : "";
}

std::string name_text(const Instruction& instruction) {
  std::string text(to_string(instruction.opcode));
  if (instruction.opcode == Opcode::imad) {
    const std::string_view alias = imad_name(instruction);
    if (!alias.empty()) text += fmt::format(".{}", alias);
  }
  for (const Modifier modifier : instruction.modifiers) {
    text += fmt::format(".{}", to_string(modifier));
  }
  return text;
}

std::string guard_text(const Guard& guard) {
  if (guard.predicate == k_true && !guard.negated) return "";
  const OperandKind kind = guard.uniform ? OperandKind::uniform_predicate : OperandKind::predicate;
  return fmt::format("@{}{} ", guard.negated ? "!" : "", register_name(kind, guard.predicate));
}

/// Between two operands: a register and what is added to it make one target.
std::string_view separator(const Instruction& of, const Operand& before) {
  const bool is_indirect = of.opcode == Opcode::brx || of.opcode == Opcode::brxu ||
                           of.opcode == Opcode::ret || of.opcode == Opcode::call;
  return is_indirect && before.is_register() ? " " : ", ";
}

}  // namespace

std::string to_text(const Instruction& instruction) {
  std::string text = guard_text(instruction.guard) + name_text(instruction);
  const Operand* before = nullptr;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const Operand& operand = instruction.operands[i];
    if (operand.hidden) continue;
    text += before == nullptr ? " " : separator(instruction, *before);
    text += operand_text(operand, instruction);
    // R2P's last operand says which byte of the register.
    const bool has_byte = instruction.opcode == Opcode::r2p && operand.kind == OperandKind::reg;
    if (has_byte && instruction.operands[3].value != 0) {
      text += fmt::format(".B{}", instruction.operands[3].value);
    }
    before = &operand;
  }
  return text;
}

}  // namespace spjit::sass
