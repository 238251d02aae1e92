// setp, with its second result and its combination with a predicate.

#include <cmath>

#include "emulated_driver/form_types.hpp"

namespace spjit::emulated {

namespace {

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge, num, nan };
enum class Combination : std::uint16_t { none, and_, or_, xor_ };

// Flags of the instruction: the combination, then these.
constexpr std::uint16_t k_combination_mask = 3;
constexpr std::uint16_t k_unordered = 4;  // true if an operand is a NaN
constexpr std::uint16_t k_ftz = 8;

template <Comparison comparison, typename T>
bool ordered_result(T a, T b) {
  switch (comparison) {
    case Comparison::eq:
      return a == b;
    case Comparison::ne:
      return a != b;
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
    case Comparison::num:
      return true;
    case Comparison::nan:
      return false;
  }
  return false;
}

template <Comparison comparison, typename T>
bool compare(T a, T b, std::uint16_t flags) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) {
      return (flags & k_unordered) != 0;
    }
    if ((flags & k_ftz) != 0) {
      a = std::fpclassify(a) == FP_SUBNORMAL ? T{0} : a;
      b = std::fpclassify(b) == FP_SUBNORMAL ? T{0} : b;
    }
  }
  return ordered_result<comparison>(a, b);
}

bool combine(Combination combination, bool a, bool b) {
  switch (combination) {
    case Combination::and_:
      return a && b;
    case Combination::or_:
      return a || b;
    case Combination::xor_:
      return a != b;
    default:
      return a;
  }
}

template <Comparison comparison, typename T>
void run_compare(Thread& thread, const Instruction& instruction) {
  const auto& [p, a, b, c] = instruction.operands;
  const std::uint16_t flags = instruction.flags;
  const bool result = compare<comparison>(thread.read<T>(a), thread.read<T>(b), flags);
  const auto combination = static_cast<Combination>(flags & k_combination_mask);
  // The displacement says whether the predicate operand is negated.
  const bool other = c != k_no_operand && thread.read<bool>(c) != (instruction.displacement != 0);
  thread.write(p, combine(combination, result, other));
  if (instruction.extra != k_no_operand) {
    thread.write(instruction.extra, combine(combination, !result, other));
  }
}

struct Named {
  std::string_view name;
  Comparison comparison;
  bool unordered;
};

constexpr Named k_ordered[] = {{"eq", Comparison::eq, false}, {"ne", Comparison::ne, false},
                               {"lt", Comparison::lt, false}, {"le", Comparison::le, false},
                               {"gt", Comparison::gt, false}, {"ge", Comparison::ge, false}};
constexpr Named k_float_only[] = {{"equ", Comparison::eq, true},   {"neu", Comparison::ne, true},
                                  {"ltu", Comparison::lt, true},   {"leu", Comparison::le, true},
                                  {"gtu", Comparison::gt, true},   {"geu", Comparison::ge, true},
                                  {"num", Comparison::num, false}, {"nan", Comparison::nan, true}};
constexpr Named k_unsigned_only[] = {{"lo", Comparison::lt, false},
                                     {"ls", Comparison::le, false},
                                     {"hi", Comparison::gt, false},
                                     {"hs", Comparison::ge, false}};

template <std::size_t count>
const Named* take_named(const Named (&table)[count], Modifiers& modifiers) {
  for (const Named& row : table) {
    if (modifiers.take(row.name)) {
      return &row;
    }
  }
  return nullptr;
}

const Named& take_comparison(Type type, Modifiers& modifiers) {
  const Named* found = nullptr;
  if (is_bits(type) && modifiers.peek() != "eq" && modifiers.peek() != "ne") {
    modifiers.refuse(".b types compare with .eq and .ne");
  }
  found = take_named(k_ordered, modifiers);
  if (found == nullptr && is_float(type)) {
    found = take_named(k_float_only, modifiers);
  }
  if (found == nullptr && !is_float(type) && !is_signed(type)) {
    found = take_named(k_unsigned_only, modifiers);
  }
  if (found == nullptr) {
    modifiers.refuse("a comparison of this type is expected there");
  }
  return *found;
}

template <typename T>
Handler handler_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::eq:
      return run_compare<Comparison::eq, T>;
    case Comparison::ne:
      return run_compare<Comparison::ne, T>;
    case Comparison::lt:
      return run_compare<Comparison::lt, T>;
    case Comparison::le:
      return run_compare<Comparison::le, T>;
    case Comparison::gt:
      return run_compare<Comparison::gt, T>;
    case Comparison::ge:
      return run_compare<Comparison::ge, T>;
    case Comparison::num:
      return run_compare<Comparison::num, T>;
    case Comparison::nan:
      return run_compare<Comparison::nan, T>;
  }
  return nullptr;
}

Combination take_combination(Modifiers& modifiers) {
  if (modifiers.take("and")) {
    return Combination::and_;
  }
  if (modifiers.take("or")) {
    return Combination::or_;
  }
  return modifiers.take("xor") ? Combination::xor_ : Combination::none;
}

}  // namespace

std::optional<Form> compare_form(std::string_view name, Modifiers& modifiers) {
  const std::optional<Type> type = modifiers.last_type();
  if (name != "setp") {
    return std::nullopt;
  }
  if (!type || *type == Type::pred || size_bytes(*type) == 1) {
    modifiers.refuse("it has to end in a type of 16 bits or more");
  }
  const Named& named = take_comparison(*type, modifiers);
  const Combination combination = take_combination(modifiers);
  const bool ftz = *type == Type::f32 && modifiers.take("ftz");
  modifiers.take_type();

  Form form = with_any(*type, [&]<typename T>(Tag<T>) {
    return plain_form(handler_of<T>(named.comparison), combination == Combination::none ? 3 : 4,
                      *type);
  });
  form.shape = Shape::compare;
  form.types[0] = form.types[3] = Type::pred;
  form.flags =
      static_cast<std::uint16_t>(static_cast<unsigned>(combination) |
                                 (named.unordered ? k_unordered : 0U) | (ftz ? k_ftz : 0U));
  return form;
}

}  // namespace spjit::emulated
