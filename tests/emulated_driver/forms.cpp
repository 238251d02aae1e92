#include "emulated_driver/forms.hpp"

#include <fmt/format.h>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

Modifiers::Modifiers(std::string_view text) : whole_(text) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    // A `::` is inside a modifier, so only dots part them.
    const std::size_t end = std::min(text.find('.', begin), text.size());
    parts_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool Modifiers::take(std::string_view name) {
  if (peek() != name) {
    return false;
  }
  ++next_;
  return true;
}

std::string_view Modifiers::peek() const {
  return next_ < parts_.size() ? parts_[next_] : std::string_view();
}

Type Modifiers::take_type() {
  const std::optional<Type> type = type_from_name(peek());
  if (!type) {
    refuse("a type is expected there (no f16, bf16 or packed ones)");
  }
  ++next_;
  return *type;
}

void Modifiers::refuse(std::string_view why) const {
  const std::string at = peek().empty() ? "its end" : fmt::format("'.{}'", peek());
  throw ProgramError(FaultKind::invalid_ptx,
                     fmt::format("opcode {} is not understood at {}: {}", whole_, at, why));
}

void Modifiers::finish() const {
  if (next_ != parts_.size()) {
    refuse("unknown modifier, or not in this place");
  }
}

Form decode_form(std::string_view opcode) {
  Modifiers modifiers(opcode);
  const std::string_view name = modifiers.peek();
  modifiers.take(name);
  for (const auto family : {float_form, integer_form, logic_form, compare_form, convert_form,
                            memory_form, control_form}) {
    // Each family looks at the modifiers only once it knows the name.
    Modifiers copy = modifiers;
    if (const std::optional<Form> form = family(name, copy)) {
      copy.finish();
      return *form;
    }
  }
  throw ProgramError(FaultKind::invalid_ptx, fmt::format("unknown opcode {}", opcode));
}

}  // namespace spjit::emulated
