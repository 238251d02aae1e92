#include "emulated_driver/symbols.hpp"

#include <fmt/format.h>

#include <charconv>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

namespace {

[[noreturn]] void refuse_twice(std::string_view name) {
  throw ProgramError(FaultKind::invalid_ptx, fmt::format("{} is declared twice", name));
}

// %f<9> and a single register %f are different names.
std::string key_of(std::string_view name, bool numbered) {
  return numbered ? fmt::format("{}<", name) : std::string(name);
}

constexpr std::pair<std::string_view, Operand> k_special[] = {
    {"%tid.x", tid_x},       {"%tid.y", tid_y},       {"%tid.z", tid_z},
    {"%ntid.x", ntid_x},     {"%ntid.y", ntid_y},     {"%ntid.z", ntid_z},
    {"%ctaid.x", ctaid_x},   {"%ctaid.y", ctaid_y},   {"%ctaid.z", ctaid_z},
    {"%nctaid.x", nctaid_x}, {"%nctaid.y", nctaid_y}, {"%nctaid.z", nctaid_z},
    {"%laneid", laneid},     {"%warpid", warpid}};

}  // namespace

bool Symbols::close() {
  if (scopes_.size() == 1) {
    return false;
  }
  for (const std::string& name : scopes_.back()) {
    registers_.erase(name);
    variables_.erase(name);
  }
  scopes_.pop_back();
  return true;
}

void Symbols::add_registers(const RegisterRange& range) {
  const std::string key = key_of(range.name, range.numbered);
  if (!registers_.emplace(key, range).second) {
    refuse_twice(range.name);
  }
  scopes_.back().push_back(key);
}

void Symbols::add_variable(const std::string& name, const Symbol& symbol) {
  if (!variables_.emplace(name, symbol).second) {
    refuse_twice(name);
  }
  scopes_.back().push_back(name);
}

std::optional<RegisterName> Symbols::find_register(std::string_view name) const {
  if (const auto found = registers_.find(std::string(name)); found != registers_.end()) {
    return RegisterName{found->second.first, found->second.type};
  }
  const std::size_t last = name.find_last_not_of("0123456789");
  for (std::size_t cut = last + 1; last != std::string_view::npos && cut < name.size(); ++cut) {
    const auto range = registers_.find(key_of(name.substr(0, cut), true));
    std::uint32_t number = 0;
    std::from_chars(name.data() + cut, name.data() + name.size(), number);
    if (range != registers_.end() && number < range->second.count) {
      return RegisterName{range->second.first + number, range->second.type};
    }
  }
  for (const auto& [special, slot] : k_special) {
    if (special == name) {
      return RegisterName{slot, Type::u32};
    }
  }
  return std::nullopt;
}

const Symbol* Symbols::find_variable(std::string_view name) const {
  const std::string key(name);
  if (const auto found = variables_.find(key); found != variables_.end()) {
    return &found->second;
  }
  const auto found = module_->find(key);
  return found == module_->end() ? nullptr : &found->second;
}

}  // namespace spjit::emulated
