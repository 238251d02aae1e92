// The operands of mov, which takes addresses and vectors too, and of call.

#include <fmt/format.h>

#include "emulated_driver/body_parser.hpp"
#include "emulated_driver/program_error.hpp"
#include "emulated_driver/thread.hpp"

namespace spjit::emulated {

namespace {

// A local variable's address depends on the frame.
void run_local_address(Thread& thread, const Instruction& instruction) {
  thread.write<std::uint64_t>(instruction.operands[0], thread.address(instruction, 1));
}

Type element_type(Type whole, std::uint32_t count) {
  const std::uint32_t bytes = size_bytes(whole) / count;
  if (!is_bits(whole) || bytes < 2) {
    refuse_ptx("this type cannot be packed");
  }
  return bytes == 2 ? Type::b16 : Type::b32;
}

// How many elements the vector has that begins at the lexer's next token.
std::uint32_t count_elements(Lexer lexer) {
  std::uint32_t count = 1;
  while (!lexer.at_end() && lexer.peek().text != "}") {
    count += lexer.next().text == "," ? 1U : 0U;
  }
  return count;
}

void prepare_vector(const Lexer& lexer, Instruction& instruction) {
  const std::uint32_t count = count_elements(lexer);
  if (count != 2 && count != 4) {
    refuse_ptx(fmt::format("a vector of {} elements; 2 or 4 are expected", count));
  }
  instruction.flags = static_cast<std::uint16_t>(count);
}

}  // namespace

void BodyParser::move_operands(const Form& form, Instruction& instruction) {
  const Type type = form.types[0];
  const bool unpacks = lexer_.peek().text == "{";
  if (unpacks) {
    prepare_vector(lexer_, instruction);
    vector_operand(element_type(type, instruction.flags), true, false, instruction);
    instruction.handler = form.vector_moves[0];
    instruction.width =
        static_cast<std::uint16_t>(size_bytes(element_type(type, instruction.flags)));
  } else {
    instruction.operands[0] = destination(type, false, instruction);
  }
  lexer_.expect(",");
  const Token token = lexer_.peek();
  const Symbol* symbol = symbols_.find_variable(token.text);
  if (token.text == "{" && !unpacks) {
    prepare_vector(lexer_, instruction);
    vector_operand(element_type(type, instruction.flags), false, false, instruction);
    instruction.handler = form.vector_moves[1];
    instruction.width =
        static_cast<std::uint16_t>(size_bytes(element_type(type, instruction.flags)));
  } else if (symbol == nullptr || symbols_.find_register(token.text)) {
    instruction.operands[1] = source(type, false);
  } else {
    if (is_float(type) || size_bytes(type) < 4) {
      refuse_ptx("an address is expected to be .u64, or .u32 in shared memory");
    }
    lexer_.next();
    instruction.operands[1] =
        symbol->is_dynamic() ? Operand{dynamic_shared} : constant(symbol->location);
    if (symbol->space == Space::local) {
      instruction.operands[1] = local_base;
      instruction.displacement = static_cast<std::int64_t>(symbol->location);
      instruction.handler = run_local_address;
    }
  }
  if (instruction.handler == nullptr) {
    refuse_ptx("a vector is not expected there");
  }
}

std::vector<Token> BodyParser::call_list() {
  std::vector<Token> list;
  lexer_.expect("(");
  while (!lexer_.take(")")) {
    list.push_back(lexer_.next());
    if (lexer_.peek().text != ")") {
      lexer_.expect(",");
    }
  }
  return list;
}

Transfer BodyParser::transfer_of(const Token& actual, const Parameter& formal, bool is_result) {
  Transfer transfer;
  bool in_register = true;
  std::uint32_t location = 0;
  const Symbol* symbol = symbols_.find_variable(actual.text);
  if (symbol != nullptr) {
    if (symbol->space != Space::param || symbol->size_bytes != formal.size_bytes) {
      refuse_ptx(fmt::format("{} does not fit {} of {} bytes", actual.text, formal.name,
                             formal.size_bytes));
    }
    in_register = false;
    location = static_cast<std::uint32_t>(symbol->location);
  } else if (actual.is_number() && !is_result) {
    location = constant(parse_number(actual, false, formal.type));
  } else {
    const RegisterName found = register_name(actual);
    if (!compatible(found.type, formal.type, false) ||
        formal.size_bytes != size_bytes(formal.type)) {
      refuse_ptx(fmt::format("{} does not fit {}", actual.text, formal.name));
    }
    location = found.slot;
  }
  transfer.size_bytes = formal.size_bytes;
  transfer.from_register = is_result ? formal.in_register : in_register;
  transfer.to_register = is_result ? in_register : formal.in_register;
  transfer.from = is_result ? formal.location : location;
  transfer.to = is_result ? location : formal.location;
  return transfer;
}

void BodyParser::call_operands(Instruction& instruction) {
  std::vector<Token> results;
  std::vector<Token> arguments;
  if (lexer_.peek().text == "(") {
    results = call_list();
    lexer_.expect(",");
  }
  const Token name = lexer_.next();
  if (lexer_.take(",")) {
    arguments = call_list();
  }
  const auto found = names_.function_index.find(std::string(name.text));
  if (found == names_.function_index.end() || names_.functions[found->second].is_entry) {
    refuse_ptx(fmt::format("'{}' is not a declared function", name.text));
  }
  const Function& callee = names_.functions[found->second];
  if (results.size() != callee.results.size() || arguments.size() != callee.parameters.size()) {
    refuse_ptx(fmt::format("{} takes {} arguments and gives {} results", name.text,
                           callee.parameters.size(), callee.results.size()));
  }
  CallSite site;
  site.function = found->second;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    site.arguments.push_back(transfer_of(arguments[i], callee.parameters[i], false));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    site.results.push_back(transfer_of(results[i], callee.results[i], true));
  }
  instruction.extra = static_cast<std::uint32_t>(function_.calls.size());
  function_.calls.push_back(std::move(site));
}

}  // namespace spjit::emulated
