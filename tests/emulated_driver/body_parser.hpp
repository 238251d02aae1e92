#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulated_driver/declarations.hpp"
#include "emulated_driver/forms.hpp"
#include "emulated_driver/program.hpp"
#include "emulated_driver/ptx_lexer.hpp"
#include "emulated_driver/symbols.hpp"

namespace spjit::emulated {

/// The part of its module that a body needs.
struct ModuleNames {
  const std::vector<Function>& functions;
  const std::unordered_map<std::string, std::uint32_t>& function_index;
  const std::unordered_map<std::string, Symbol>& variables;
  std::unordered_map<std::string, Form>& forms;  ///< opcodes decoded so far
  std::uint32_t& shared_bytes;                   ///< of the module's shared variables so far
};

/// Parses the statements of one function, from behind its `{` to its `}`.
class BodyParser {
 public:
  BodyParser(Lexer& lexer, Function& function, const ModuleNames& names);

  void parse();

 private:
  struct Fixup {
    std::string_view label;
    std::uint32_t line;
    std::size_t instruction;
  };

  void statement();
  /// Whether the next two tokens are a name and a colon.
  [[nodiscard]] bool is_label() const;
  bool declaration(std::string_view directive);
  void branch_targets(std::string_view label);
  void add_registers();
  void add_variable(Space space);
  void instruction();
  void operands(const Form& form, Instruction& instruction);
  void plain_operands(const Form& form, Instruction& instruction);
  void compare_operands(const Form& form, Instruction& instruction);
  void move_operands(const Form& form, Instruction& instruction);
  void access_operands(const Form& form, Instruction& instruction);
  void barrier_operands(const Form& form, Instruction& instruction);
  void call_operands(Instruction& instruction);
  std::vector<Token> call_list();
  Transfer transfer_of(const Token& actual, const Parameter& formal, bool is_result);

  RegisterName register_name(const Token& token);
  Operand destination(Type type, bool may_be_wider, Instruction& instruction);
  Operand source(Type type, bool may_be_wider);
  Operand constant(std::uint64_t bits);
  void vector_operand(Type element, bool is_destination, bool may_be_wider,
                      Instruction& instruction);
  void address_operand(Space space, std::uint32_t size, Operand& base, Instruction& instruction);
  void resolve_labels();

  Lexer& lexer_;
  Function& function_;
  const ModuleNames& names_;
  Symbols symbols_;
  std::unordered_map<std::uint64_t, Operand> constants_;
  std::unordered_map<std::string_view, std::uint32_t> labels_;
  std::unordered_map<std::string_view, std::uint32_t> tables_;
  std::vector<std::vector<std::string_view>> table_labels_;
  std::vector<Fixup> fixups_;
};

}  // namespace spjit::emulated
