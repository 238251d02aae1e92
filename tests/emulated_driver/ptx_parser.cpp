// Modules: versions, variables, function headers; bodies are BodyParser's.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "emulated_driver/body_parser.hpp"
#include "emulated_driver/declarations.hpp"
#include "emulated_driver/program.hpp"
#include "emulated_driver/program_error.hpp"
#include "emulated_driver/ptx_lexer.hpp"

namespace spjit::emulated {

namespace {

// CUDA 13.0 writes 9.0; later ones add instructions that are not known here.
constexpr int k_newest_version = 90;
constexpr int k_oldest_version = 60;

class ModuleParser {
 public:
  ModuleParser(std::string_view text, GlobalMemory& memory) : memory_(memory) {
    program_.source = text;
  }

  Program parse() {
    Lexer lexer(program_.source);
    lexer_ = &lexer;
    try {
      if (lexer.peek().text != ".version") {
        refuse_ptx("PTX begins with .version");
      }
      while (!lexer.at_end()) {
        statement();
      }
    } catch (const ProgramError& error) {
      const std::uint32_t line = lexer.peek().line;
      throw ProgramError(error.kind(), fmt::format("line {}: '{}': {}", line,
                                                   program_.line_text(line), error.what()));
    }
    finish();
    return std::move(program_);
  }

 private:
  void statement() {
    const bool is_visible = lexer_->take(".visible") || lexer_->take(".weak");
    const bool is_extern = !is_visible && lexer_->take(".extern");
    const Token directive = lexer_->next();
    if (directive.text == ".version") {
      begin_unit();
    } else if (directive.text == ".target") {
      target();
    } else if (directive.text == ".address_size") {
      lexer_->expect("64");
    } else if (directive.text == ".global" || directive.text == ".const") {
      variable(directive.text == ".const", is_extern);
    } else if (directive.text == ".shared") {
      shared_variable();
    } else if (directive.text == ".entry" || directive.text == ".func") {
      function(directive.text == ".entry", is_visible || is_extern);
    } else if (directive.text == ".file") {
      lexer_->next();
      lexer_->next();
    } else if (directive.text != ";") {
      refuse_ptx(fmt::format("unknown directive '{}'", directive.text));
    }
  }

  void begin_unit() {
    const Token number = lexer_->next();
    const std::size_t dot = number.text.find('.');
    int major = 0;
    int minor = 0;
    std::from_chars(number.text.data(), number.text.data() + number.text.size(), major);
    if (dot != std::string_view::npos) {
      std::from_chars(number.text.data() + dot + 1, number.text.data() + number.text.size(), minor);
    }
    program_.version = std::max(program_.version, 10 * major + minor);
    if (10 * major + minor < k_oldest_version || 10 * major + minor > k_newest_version) {
      refuse_ptx(fmt::format(".version {}; 6.0 to 9.0 are known", number.text));
    }
    unit_functions_.clear();
    unit_variables_.clear();
  }

  void target() {
    const Token token = lexer_->next();
    int number = 0;
    if (token.text.starts_with("sm_")) {
      std::from_chars(token.text.data() + 3, token.text.data() + token.text.size(), number);
    }
    if (number < 50) {
      refuse_ptx(fmt::format(".target '{}'; sm_50 or later is expected", token.text));
    }
    program_.target = std::max(program_.target, number);
    while (lexer_->take(",")) {
      if (lexer_->next().text != "debug") {
        refuse_ptx("of .target's options only debug is known");
      }
    }
  }

  void variable(bool is_constant, bool is_extern) {
    const Declaration declared = read_declaration(*lexer_);
    lexer_->expect(";");
    if (is_extern || declared.size_bytes == 0) {
      refuse_ptx(fmt::format("{}: variables of other modules are not linked", declared.name));
    }
    Allocation* allocation = memory_.allocate(declared.size_bytes, is_constant);
    if (allocation == nullptr) {
      refuse_ptx(fmt::format("no memory for {} of {} bytes", declared.name, declared.size_bytes));
    }
    program_.variables.push_back({declared.name, OwnedAllocation(memory_, *allocation)});
    // Without an initializer it is zero.
    std::vector<std::uint8_t> initial = declared.initial;
    initial.resize(declared.size_bytes);
    allocation->contents.write(0, initial);
    add_variable(declared.name, {is_constant ? Space::constant : Space::global, allocation->address,
                                 declared.size_bytes});
  }

  void shared_variable() {
    const Declaration declared = read_declaration(*lexer_);
    lexer_->expect(";");
    shared_bytes_ = aligned(shared_bytes_, declared.align_bytes);
    add_variable(declared.name, {Space::shared, shared_bytes_, declared.size_bytes});
    shared_bytes_ += static_cast<std::uint32_t>(declared.size_bytes);
  }

  void add_variable(const std::string& name, const Symbol& symbol) {
    if (!unit_variables_.emplace(name, symbol).second) {
      refuse_ptx(fmt::format("{} is declared twice", name));
    }
  }

  std::vector<Parameter> parameters(Function& function) {
    std::vector<Parameter> list;
    if (!lexer_->take("(")) {
      return list;
    }
    while (!lexer_->take(")")) {
      list.push_back(parameter(function));
      if (lexer_->peek().text != ")") {
        lexer_->expect(",");
      }
    }
    return list;
  }

  Parameter parameter(Function& function) {
    Parameter made;
    made.in_register = !function.is_entry && lexer_->take(".reg");
    if (!made.in_register) {
      lexer_->expect(".param");
    }
    const Declaration declared = read_declaration(*lexer_);
    made.name = declared.name;
    made.type = declared.type;
    made.size_bytes = static_cast<std::uint32_t>(declared.size_bytes);
    if (made.in_register) {
      made.location = function.register_count++;
    } else {
      function.param_bytes = aligned(function.param_bytes, declared.align_bytes);
      made.location = function.param_bytes;
      function.param_bytes += made.size_bytes;
    }
    return made;
  }

  static std::uint32_t number(Lexer& lexer) {
    return static_cast<std::uint32_t>(parse_number(lexer.next(), false, Type::u32));
  }

  std::array<std::uint32_t, 3> extent() {
    std::array<std::uint32_t, 3> extent = {number(*lexer_), 1, 1};
    for (std::size_t i = 1; i < 3 && lexer_->take(","); ++i) {
      extent[i] = number(*lexer_);
    }
    return extent;
  }

  void attributes(Function& function) {
    while (lexer_->peek().text != "{" && lexer_->peek().text != ";") {
      const Token directive = lexer_->next();
      if (directive.text == ".maxntid") {
        function.max_block = extent();
      } else if (directive.text == ".reqntid") {
        function.exact_block = extent();
      } else if (directive.text == ".minnctapersm" || directive.text == ".maxnreg") {
        number(*lexer_);  // for the register allocation, which there is none of
      } else if (directive.text != ".noreturn") {
        refuse_ptx(fmt::format("unknown directive {} of a function", directive.text));
      }
    }
  }

  void function(bool is_entry, bool is_shared) {
    Function made;
    made.is_entry = is_entry;
    if (!is_entry) {
      made.results = parameters(made);
    }
    made.name = lexer_->next().text;
    made.parameters = parameters(made);
    made.parameter_bytes = made.param_bytes;
    attributes(made);

    const std::uint32_t index = index_of(made, is_shared || is_entry);
    if (lexer_->take(";")) {
      return;
    }
    if (program_.functions[index].is_defined) {
      refuse_ptx(fmt::format("{} is defined twice", made.name));
    }
    made.is_defined = true;
    program_.functions[index] = std::move(made);
    lexer_->expect("{");
    const ModuleNames names{program_.functions, unit_functions_, unit_variables_, forms_,
                            shared_bytes_};
    BodyParser(*lexer_, program_.functions[index], names).parse();
  }

  // The place of a function that is declared now or was before, by this unit or by another.
  std::uint32_t index_of(const Function& function, bool is_shared) {
    const auto next = static_cast<std::uint32_t>(program_.functions.size());
    std::uint32_t index = next;
    if (const auto known = unit_functions_.find(function.name); known != unit_functions_.end()) {
      index = known->second;
    } else if (is_shared) {
      index = shared_functions_.emplace(function.name, next).first->second;
    }
    unit_functions_[function.name] = index;
    if (index == next) {
      program_.functions.push_back(function);
      return index;
    }
    const Function& known = program_.functions[index];
    if (known.parameter_bytes != function.parameter_bytes ||
        known.parameters.size() != function.parameters.size() ||
        known.results.size() != function.results.size()) {
      refuse_ptx(fmt::format("{} was declared with other parameters", function.name));
    }
    return index;
  }

  // Every kernel gets room for the shared variables of the whole module.
  void finish() {
    if (program_.target == 0) {
      refuse_ptx("a .target is expected");
    }
    for (Function& function : program_.functions) {
      function.shared_bytes = aligned(shared_bytes_, 16);
      if (!function.is_defined) {
        throw ProgramError(
            FaultKind::unresolved_symbol,
            fmt::format("function {} is declared, but no unit defines it", function.name));
      }
    }
  }

  GlobalMemory& memory_;
  Program program_;
  Lexer* lexer_ = nullptr;
  std::uint32_t shared_bytes_ = 0;
  std::unordered_map<std::string, std::uint32_t> unit_functions_;
  std::unordered_map<std::string, std::uint32_t> shared_functions_;
  std::unordered_map<std::string, Symbol> unit_variables_;
  std::unordered_map<std::string, Form> forms_;
};

}  // namespace

const Function* Program::find_entry(std::string_view name) const {
  const auto found = std::find_if(functions.begin(), functions.end(), [&](const Function& one) {
    return one.is_entry && one.name == name;
  });
  return found == functions.end() ? nullptr : &*found;
}

std::string_view Program::line_text(std::uint32_t line) const {
  std::string_view rest = source;
  for (std::uint32_t i = 1; i < line && !rest.empty(); ++i) {
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  const std::size_t begin = std::min(rest.find_first_not_of(" \t\r"), rest.size());
  const std::size_t end = rest.find_last_not_of(" \t\r;");
  return end == std::string_view::npos ? std::string_view() : rest.substr(begin, end + 1 - begin);
}

Program parse_program(std::string_view text, GlobalMemory& memory) {
  return ModuleParser(text, memory).parse();
}

}  // namespace spjit::emulated
