#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulated_driver/program.hpp"

namespace spjit::emulated {

/// A variable's name: where it is in its state space.
struct Symbol {
  Space space = Space::global;
  std::uint64_t location = 0;  ///< address in global and const, offset elsewhere
  std::uint64_t size_bytes = 0;

  /// `.extern .shared x[]`: begins behind the static ones, where the launch's dynamic memory is.
  [[nodiscard]] bool is_dynamic() const { return space == Space::shared && size_bytes == 0; }
};

struct RegisterName {
  Operand slot = 0;
  Type type = Type::pred;
};

/// The registers and variables that a function's body can name, by nested scopes.
class Symbols {
 public:
  explicit Symbols(const std::unordered_map<std::string, Symbol>& module) : module_(&module) {}

  void open() { scopes_.emplace_back(); }
  /// False if none is open.
  bool close();

  void add_registers(const RegisterRange& range);
  void add_variable(const std::string& name, const Symbol& symbol);

  [[nodiscard]] std::optional<RegisterName> find_register(std::string_view name) const;
  [[nodiscard]] const Symbol* find_variable(std::string_view name) const;

 private:
  const std::unordered_map<std::string, Symbol>* module_;
  std::unordered_map<std::string, RegisterRange> registers_;
  std::unordered_map<std::string, Symbol> variables_;
  std::vector<std::vector<std::string>> scopes_ = {{}};
};

}  // namespace spjit::emulated
