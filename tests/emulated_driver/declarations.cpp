#include "emulated_driver/declarations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

namespace {

constexpr std::uint64_t k_max_variable_bytes = std::uint64_t{1} << 30;

std::uint64_t read_size(Lexer& lexer) { return parse_number(lexer.next(), false, Type::u32); }

Type read_type(Lexer& lexer) {
  const Token token = lexer.next();
  std::optional<Type> type;
  if (token.text.starts_with('.')) {
    type = type_from_name(token.text.substr(1));
  }
  if (!type) {
    throw ProgramError(FaultKind::invalid_ptx, fmt::format("'{}' is not a type", token.text));
  }
  return *type;
}

void read_values(Lexer& lexer, Type type, std::vector<std::uint8_t>& bytes) {
  if (lexer.take("{")) {
    do {
      read_values(lexer, type, bytes);
    } while (lexer.take(","));
    lexer.expect("}");
    return;
  }
  const bool negative = lexer.take("-");
  const std::uint64_t bits = parse_number(lexer.next(), negative, type);
  for (std::uint32_t i = 0; i < size_bytes(type); ++i) {
    bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
  }
}

}  // namespace

Declaration read_declaration(Lexer& lexer) {
  Declaration declaration;
  std::uint32_t align = 0;
  if (lexer.take(".align")) {
    align = static_cast<std::uint32_t>(read_size(lexer));
  }
  declaration.type = read_type(lexer);
  if (lexer.take(".ptr")) {  // what a pointer points to: only for optimizers
    if (lexer.peek().text != ".align") {
      lexer.next();
    }
    if (lexer.take(".align")) {
      lexer.next();
    }
  }
  declaration.name = lexer.next().text;
  declaration.align_bytes = std::max(align, size_bytes(declaration.type));
  declaration.size_bytes = size_bytes(declaration.type);
  while (lexer.take("[")) {
    declaration.size_bytes *= lexer.peek().text == "]" ? 0 : read_size(lexer);
    lexer.expect("]");
  }
  if (declaration.size_bytes > k_max_variable_bytes) {
    throw ProgramError(FaultKind::invalid_ptx,
                       fmt::format("{} has {} bytes", declaration.name, declaration.size_bytes));
  }
  if (lexer.take("=")) {
    read_values(lexer, declaration.type, declaration.initial);
    if (declaration.initial.size() > declaration.size_bytes) {
      throw ProgramError(FaultKind::invalid_ptx,
                         fmt::format("{} has more values than room", declaration.name));
    }
    declaration.initial.resize(declaration.size_bytes);
  }
  return declaration;
}

std::vector<RegisterRange> read_registers(Lexer& lexer) {
  std::vector<RegisterRange> ranges;
  const Type type = read_type(lexer);
  do {
    RegisterRange range;
    range.name = lexer.next().text;
    range.type = type;
    if (lexer.take("<")) {
      range.numbered = true;
      range.count = static_cast<std::uint32_t>(read_size(lexer));
      lexer.expect(">");
    }
    ranges.push_back(range);
  } while (lexer.take(","));
  lexer.expect(";");
  return ranges;
}

}  // namespace spjit::emulated
