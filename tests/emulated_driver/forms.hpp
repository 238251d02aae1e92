#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "emulated_driver/program.hpp"
#include "emulated_driver/ptx_type.hpp"

namespace spjit::emulated {

/// How an instruction's operands are written.
enum class Shape : std::uint8_t {
  plain,         ///< d, a, b, c, e: registers, immediates, special registers
  compare,       ///< p or p|q, a, b and perhaps a predicate
  move,          ///< plain, or a variable's address, or one side a vector
  load,          ///< d or {d, ...}, [address]
  store,         ///< [address], a or {a, ...}
  prefetch,      ///< [address]
  branch,        ///< label
  branch_table,  ///< index, label of a .branchtargets
  call,          ///< (results), function, (arguments)
  barrier,       ///< a or a, b
  none,
};

/// An opcode with its modifiers and types, decoded: what it does and what operands it takes.
struct Form {
  Handler handler = nullptr;
  Shape shape = Shape::plain;
  std::uint32_t operands = 0;
  /// For plain and compare: of each operand. For load and store: types[0] of one element.
  std::array<Type, 5> types{};
  bool may_be_wider = false;  ///< ld, st and cvt take registers wider than the type
  Space space = Space::generic;
  std::uint32_t vector = 1;
  std::uint16_t flags = 0;                ///< copied into the instruction
  std::array<Handler, 2> vector_moves{};  ///< for moves: unpacks, packs
};

/// The modifiers of an opcode, taken from the left in the order that PTX fixes.
class Modifiers {
 public:
  explicit Modifiers(std::string_view text);

  /// True, and one further, if the next modifier is `name`.
  bool take(std::string_view name);
  /// The next modifier if it is a type. Throws if it is none.
  Type take_type();
  [[nodiscard]] std::string_view peek() const;
  /// The opcode's last type, which tells add.f32 from add.s32.
  [[nodiscard]] std::optional<Type> last_type() const { return type_from_name(parts_.back()); }
  [[nodiscard]] std::string_view whole() const { return whole_; }
  /// Refuses the opcode, naming the modifier at fault.
  [[noreturn]] void refuse(std::string_view why) const;
  void finish() const;

 private:
  std::string_view whole_;
  std::vector<std::string_view> parts_;
  std::size_t next_ = 0;
};

/// Decodes `opcode`, say `fma.rn.f32`. Throws ProgramError for what it does not know.
[[nodiscard]] Form decode_form(std::string_view opcode);

/// The families; nothing if the opcode is of another one. `name` has been taken off already.
[[nodiscard]] std::optional<Form> integer_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> float_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> logic_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> compare_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> convert_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> memory_form(std::string_view name, Modifiers& modifiers);
[[nodiscard]] std::optional<Form> control_form(std::string_view name, Modifiers& modifiers);

}  // namespace spjit::emulated
