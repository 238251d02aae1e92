#include "emulated_driver/body_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

BodyParser::BodyParser(Lexer& lexer, Function& function, const ModuleNames& names)
    : lexer_(lexer), function_(function), names_(names), symbols_(names.variables) {
  for (const std::vector<Parameter>* list : {&function.results, &function.parameters}) {
    for (const Parameter& parameter : *list) {
      if (parameter.in_register) {
        const RegisterRange range{parameter.name, false, 1, parameter.location, parameter.type};
        symbols_.add_registers(range);
        function_.registers.push_back(range);
      } else {
        symbols_.add_variable(parameter.name,
                              {Space::param, parameter.location, parameter.size_bytes});
      }
    }
  }
}

void BodyParser::parse() {
  symbols_.open();
  for (std::size_t depth = 1; depth > 0;) {
    if (lexer_.at_end()) {
      refuse_ptx(fmt::format("{} has no end", function_.name));
    }
    if (lexer_.take("{")) {
      symbols_.open();
      ++depth;
    } else if (lexer_.take("}")) {
      symbols_.close();
      --depth;
    } else {
      statement();
    }
  }
  Instruction end;  // running off the end is returning
  end.handler = decode_form("ret").handler;
  function_.code.push_back(end);
  resolve_labels();
}

void BodyParser::statement() {
  const Token first = lexer_.peek();
  if (first.text == ";") {
    lexer_.next();
  } else if (first.text[0] == '.') {
    lexer_.next();
    if (!declaration(first.text)) {
      refuse_ptx(fmt::format("unknown directive {} in a function", first.text));
    }
  } else if (is_label()) {
    lexer_.next();
    lexer_.expect(":");
    if (lexer_.peek().text == ".branchtargets") {
      branch_targets(first.text);
    } else if (!labels_.emplace(first.text, function_.code.size()).second) {
      refuse_ptx(fmt::format("label {} is there twice", first.text));
    }
  } else {
    instruction();
  }
}

bool BodyParser::is_label() const {
  Lexer ahead = lexer_;
  ahead.next();
  return ahead.peek().text == ":";
}

bool BodyParser::declaration(std::string_view directive) {
  if (directive == ".reg") {
    add_registers();
  } else if (directive == ".param") {
    add_variable(Space::param);
  } else if (directive == ".local") {
    add_variable(Space::local);
  } else if (directive == ".shared") {
    add_variable(Space::shared);
  } else if (directive == ".pragma") {
    lexer_.next();
    lexer_.expect(";");
  } else if (directive == ".loc") {
    // Up to the end of its line, which lexing does not keep apart: three numbers.
    for (int i = 0; i < 3; ++i) {
      lexer_.next();
    }
  } else {
    return false;
  }
  return true;
}

void BodyParser::branch_targets(std::string_view label) {
  lexer_.expect(".branchtargets");
  std::vector<std::string_view> targets;
  do {
    targets.push_back(lexer_.next().text);
  } while (lexer_.take(","));
  lexer_.expect(";");
  if (!tables_.emplace(label, static_cast<std::uint32_t>(table_labels_.size())).second) {
    refuse_ptx(fmt::format("table {} is there twice", label));
  }
  table_labels_.push_back(std::move(targets));
}

void BodyParser::add_registers() {
  for (RegisterRange& range : read_registers(lexer_)) {
    range.first = function_.register_count;
    function_.register_count += range.count;
    symbols_.add_registers(range);
    function_.registers.push_back(range);
  }
}

void BodyParser::add_variable(Space space) {
  const Declaration declared = read_declaration(lexer_);
  lexer_.expect(";");
  std::uint32_t& total = space == Space::param   ? function_.param_bytes
                         : space == Space::local ? function_.local_bytes
                                                 : names_.shared_bytes;
  total = aligned(total, declared.align_bytes);
  symbols_.add_variable(declared.name, {space, total, declared.size_bytes});
  total += static_cast<std::uint32_t>(declared.size_bytes);
}

void BodyParser::instruction() {
  Instruction made;
  if (lexer_.take("@")) {
    const bool negated = lexer_.take("!");
    const RegisterName guard = register_name(lexer_.next());
    if (guard.type != Type::pred) {
      refuse_ptx("a guard has to be a predicate");
    }
    made.guard = guard.slot | (negated ? k_constant_bit : 0U);
  }
  const Token opcode = lexer_.next();
  made.line = opcode.line;
  auto known = names_.forms.find(std::string(opcode.text));
  if (known == names_.forms.end()) {
    known = names_.forms.emplace(opcode.text, decode_form(opcode.text)).first;
  }
  const Form& form = known->second;
  made.handler = form.handler;
  made.flags = form.flags;
  operands(form, made);
  lexer_.expect(";");
  function_.code.push_back(made);
}

void BodyParser::operands(const Form& form, Instruction& instruction) {
  switch (form.shape) {
    case Shape::plain:
      return plain_operands(form, instruction);
    case Shape::compare:
      return compare_operands(form, instruction);
    case Shape::move:
      return move_operands(form, instruction);
    case Shape::load:
    case Shape::store:
      return access_operands(form, instruction);
    case Shape::prefetch:
      return address_operand(form.space, 0, instruction.operands[0], instruction);
    case Shape::barrier:
      return barrier_operands(form, instruction);
    case Shape::call:
      return call_operands(instruction);
    case Shape::branch_table:
      instruction.operands[0] = source(Type::u32, false);
      lexer_.expect(",");
      [[fallthrough]];
    case Shape::branch: {
      const Token label = lexer_.next();
      fixups_.push_back({label.text, label.line, function_.code.size()});
      // Until labels are resolved: whether it is a table's.
      instruction.extra = form.shape == Shape::branch_table ? 1 : 0;
      return;
    }
    case Shape::none:
      return;
  }
}

void BodyParser::plain_operands(const Form& form, Instruction& instruction) {
  instruction.operands[0] = destination(form.types[0], form.may_be_wider, instruction);
  for (std::uint32_t i = 1; i < form.operands; ++i) {
    lexer_.expect(",");
    const Operand read = source(form.types[i], form.may_be_wider);
    (i < instruction.operands.size() ? instruction.operands[i] : instruction.extra) = read;
  }
}

void BodyParser::compare_operands(const Form& form, Instruction& instruction) {
  instruction.operands[0] = destination(Type::pred, false, instruction);
  instruction.extra = k_no_operand;
  if (lexer_.take("|")) {
    instruction.extra = destination(Type::pred, false, instruction);
  }
  for (std::uint32_t i = 1; i < form.operands; ++i) {
    lexer_.expect(",");
    if (i == 3 && lexer_.take("!")) {
      instruction.displacement = 1;
    }
    instruction.operands[i] = source(form.types[i], false);
  }
}

void BodyParser::barrier_operands(const Form& form, Instruction& instruction) {
  instruction.operands[0] = source(Type::u32, false);
  if (form.operands == 2 && lexer_.take(",")) {
    instruction.operands[1] = source(Type::u32, false);
  }
}

RegisterName BodyParser::register_name(const Token& token) {
  const std::optional<RegisterName> found = symbols_.find_register(token.text);
  if (!found) {
    refuse_ptx(fmt::format("'{}' is not a register", token.text));
  }
  return *found;
}

Operand BodyParser::destination(Type type, bool may_be_wider, Instruction& instruction) {
  const Token token = lexer_.next();
  if (token.text == "_") {
    refuse_ptx("'_' stands only in vectors");
  }
  const RegisterName found = register_name(token);
  if (found.slot < special_slots) {
    refuse_ptx(fmt::format("{} cannot be written", token.text));
  }
  if (!compatible(found.type, type, may_be_wider)) {
    refuse_ptx(fmt::format("{} is .{}, which cannot hold .{}", token.text, name_of(found.type),
                           name_of(type)));
  }
  instruction.width = static_cast<std::uint16_t>(size_bytes(found.type));
  return found.slot;
}

Operand BodyParser::source(Type type, bool may_be_wider) {
  const bool negative = lexer_.take("-");
  const Token token = lexer_.next();
  if (negative || token.is_number()) {
    return constant(parse_number(token, negative, type));
  }
  const RegisterName found = register_name(token);
  if (!compatible(found.type, type, may_be_wider)) {
    refuse_ptx(fmt::format("{} is .{}, but .{} is expected", token.text, name_of(found.type),
                           name_of(type)));
  }
  return found.slot;
}

Operand BodyParser::constant(std::uint64_t bits) {
  const auto next = static_cast<Operand>(function_.constants.size());
  const auto [found, is_new] = constants_.emplace(bits, next | k_constant_bit);
  if (is_new) {
    function_.constants.push_back(bits);
  }
  return found->second;
}

void BodyParser::vector_operand(Type element, bool is_destination, bool may_be_wider,
                                Instruction& instruction) {
  const std::uint16_t width = instruction.width;
  instruction.extra = static_cast<std::uint32_t>(function_.vector_slots.size());
  std::uint16_t count = 0;
  lexer_.expect("{");
  do {
    Operand slot = k_no_operand;
    if (!is_destination) {
      slot = source(element, may_be_wider);
    } else if (!lexer_.take("_")) {
      slot = destination(element, may_be_wider, instruction);
    }
    function_.vector_slots.push_back(slot);
    ++count;
  } while (lexer_.take(","));
  lexer_.expect("}");
  if (count != instruction.flags) {
    refuse_ptx(fmt::format("a vector of {} elements; {} are expected", count, instruction.flags));
  }
  instruction.width = std::max(width, instruction.width);
}

void BodyParser::access_operands(const Form& form, Instruction& instruction) {
  const bool is_load = form.shape == Shape::load;
  const std::uint32_t size = form.vector * size_bytes(form.types[0]);
  if (!is_load) {
    address_operand(form.space, size, instruction.operands[0], instruction);
    lexer_.expect(",");
  }
  if (form.vector > 1) {
    vector_operand(form.types[0], is_load, true, instruction);
  } else if (is_load) {
    instruction.operands[0] = destination(form.types[0], true, instruction);
  } else {
    instruction.operands[1] = source(form.types[0], true);
  }
  if (is_load) {
    lexer_.expect(",");
    address_operand(form.space, size, instruction.operands[1], instruction);
  }
}

void BodyParser::address_operand(Space space, std::uint32_t size, Operand& base,
                                 Instruction& instruction) {
  lexer_.expect("[");
  const Token token = lexer_.next();
  const Symbol* symbol = nullptr;
  if (const auto found = symbols_.find_register(token.text)) {
    const bool small = size_bytes(found->type) == 4 && space != Space::generic &&
                       space != Space::global && space != Space::constant;
    if (is_float(found->type) || (size_bytes(found->type) != 8 && !small)) {
      refuse_ptx(fmt::format("{} cannot hold an address of this state space", token.text));
    }
    base = found->slot;
  } else if (token.is_number()) {
    base = constant(parse_number(token, false, Type::u64));
  } else if (symbol = symbols_.find_variable(token.text); symbol != nullptr) {
    if (symbol->space != space) {
      refuse_ptx(fmt::format("{} is in another state space", token.text));
    }
    base = symbol->is_dynamic()    ? Operand{dynamic_shared}
           : space == Space::local ? Operand{local_base}
                                   : constant(0);
    instruction.displacement =
        static_cast<std::int64_t>(symbol->is_dynamic() ? 0 : symbol->location);
  } else {
    refuse_ptx(fmt::format("'{}' is neither a register nor a variable", token.text));
  }
  std::int64_t offset = 0;
  if (lexer_.take("+")) {
    const bool negative = lexer_.take("-");
    offset = static_cast<std::int64_t>(parse_number(lexer_.next(), negative, Type::s64));
  } else if (lexer_.take("-")) {
    offset = static_cast<std::int64_t>(parse_number(lexer_.next(), true, Type::s64));
  }
  lexer_.expect("]");
  if (!std::in_range<std::int32_t>(offset)) {
    refuse_ptx(fmt::format("offset {} of an address does not fit 32 bits", offset));
  }
  instruction.displacement += offset;
  const bool is_sized = symbol != nullptr && symbol->size_bytes != 0;  // an extern array is not
  if (is_sized && (offset < 0 || static_cast<std::uint64_t>(offset) + size > symbol->size_bytes)) {
    refuse_ptx(fmt::format("{} bytes at offset {} of the {} bytes of {}", size, offset,
                           symbol->size_bytes, token.text));
  }
}

void BodyParser::resolve_labels() {
  const auto target = [&](std::string_view label) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) {
      refuse_ptx(fmt::format("no label {} in {}", label, function_.name));
    }
    return found->second;
  };
  for (const auto& labels : table_labels_) {
    std::vector<std::uint32_t>& table = function_.branch_tables.emplace_back();
    std::transform(labels.begin(), labels.end(), std::back_inserter(table), target);
  }
  for (const Fixup& fixup : fixups_) {
    Instruction& instruction = function_.code[fixup.instruction];
    if (instruction.extra == 0) {
      instruction.extra = target(fixup.label);
      continue;
    }
    const auto table = tables_.find(fixup.label);
    if (table == tables_.end()) {
      refuse_ptx(fmt::format("line {}: no .branchtargets {}", fixup.line, fixup.label));
    }
    instruction.extra = table->second;
  }
}

}  // namespace spjit::emulated
