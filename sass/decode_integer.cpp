// IADD3 IMAD IABS LEA LOP3 SHF PRMT SEL ISETP IMNMX VIMNMX VIMNMX3 VIADD VIADDMNMX FLO POPC, and
// those that the uniform datapath has too, with a U before their names.

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

constexpr int k_first_arch_after_turing = 80;

/// A carry in; without one the field has to say !PT.
void carry_in(Reader& in, unsigned first, bool has_carry) {
  Operand& carry = in.source_predicate(first);
  carry.hidden = !has_carry;
  if (!has_carry && !(carry.number == k_true && carry.negated)) in.refuse();
}

void sum_of_three(Reader& in) {
  const bool has_carry = in.flag(74);
  const Sign sign = has_carry ? Sign::invert : Sign::negate;
  in.add_if(has_carry, x);
  in.destination();
  in.destination_predicate(81, false);
  in.destination_predicate(84, false);
  in.source_a(sign);
  in.sources_bc(sign, sign);
  carry_in(in, 87, has_carry);
  carry_in(in, 77, has_carry);
}

// The kinds differ in their destination, in the width of C and in a carry out.
struct ProductKind {
  Modifier name;
  std::uint8_t registers;      // of the destination
  std::uint8_t sum_registers;  // of C, which is added before .HI drops the lower half
  bool has_carry_out;
};

void product_and_sum(Reader& in, const ProductKind& kind) {
  in.add(kind.name);
  in.add_if(!in.flag(73), u32);
  const bool has_carry = in.flag(74);
  in.add_if(has_carry, x);
  in.destination(kind.registers);
  if (kind.has_carry_out) {
    in.destination_predicate(81, false);
  } else {
    in.expect(81, 3, k_true);
  }
  in.source_a(Sign::none);
  in.sources_bc(Sign::none, has_carry ? Sign::invert : Sign::negate, kind.sum_registers);
  carry_in(in, 87, has_carry);
}

constexpr ProductKind k_low = {none, 1, 1, false};
constexpr ProductKind k_wide = {wide, 2, 2, true};
constexpr ProductKind k_high = {hi, 1, 2, true};

void scaled_sum(Reader& in) {
  in.immediates(Immediate::bits);
  const bool is_high = in.flag(80);
  const bool has_carry = in.flag(74);
  const bool is_extended = in.flag(73);  // the sign of A as its upper part
  if (is_extended && !is_high) in.refuse();
  in.add_if(is_high, hi);
  in.add_if(has_carry, x);
  in.add_if(is_extended, sx32);
  in.destination();
  in.destination_predicate(81, false);
  in.source_a(has_carry ? Sign::invert : Sign::negate);
  in.source_b(has_carry ? Sign::invert : Sign::negate);
  Operand& c = in.register_high(Sign::none);
  c.hidden = !is_high || is_extended;
  if (c.hidden && (!c.is_fixed() || c.reuse)) in.refuse();
  in.integer(static_cast<std::int64_t>(in.take(75, 5)));
  carry_in(in, 87, has_carry);
}

void table_of_three(Reader& in) {
  in.immediates(Immediate::bits);
  in.add(lut);
  in.destination_predicate(81, false);
  in.destination();
  in.source_a(Sign::none);
  in.source_b(Sign::none);
  in.register_high(Sign::none);
  in.integer(static_cast<std::int64_t>(in.take(72, 8)));
  in.source_predicate(87);
}

void shift(Reader& in) {
  in.immediates(Immediate::bits);
  in.add(in.flag(76) ? r : l);
  in.add_if(in.flag(75), w);
  in.add_from(73, 2, {s64, u64, s32, u32});
  in.add_if(in.flag(80), hi);
  in.destination();
  in.source_a(Sign::none);
  in.sources_bc(Sign::none, Sign::none);
}

void one_of_two(Reader& in) {
  in.destination();
  in.source_a(Sign::none);
  in.source_b(Sign::none);
  in.source_predicate(87);
}

void selection(Reader& in) {
  in.immediates(Immediate::bits);
  one_of_two(in);
}

void comparison(Reader& in) {
  in.add_from(76, 3, {f, lt, eq, le, gt, ne, ge, t});
  in.add_if(!in.flag(73), u32);
  in.add_from(74, 2, {and_, or_, xor_});
  const bool has_low_part = in.flag(72);
  in.add_if(has_low_part, ex);
  in.destination_predicate(81, true);
  in.destination_predicate(84, true);
  in.source_a(Sign::none);
  in.source_b(Sign::none);
  in.source_predicate(87);
  Operand& low = in.source_predicate(68);
  low.hidden = !has_low_part;
  const bool is_true = low.number == k_true && !low.negated;
  // sm_75 has no spelling for a low part that is PT.
  if (is_true ? has_low_part && in.arch() < k_first_arch_after_turing : !has_low_part) in.refuse();
}

void leading_bit(Reader& in) {
  in.add_if(!in.flag(73), u32);
  in.add_if(in.flag(74), sh);
  in.destination();
  in.destination_predicate(81, false);
  in.source_b(Sign::invert);
}

template <Opcode opcode, auto rest>
void lanes(Reader& in) {
  in.begin(opcode);
  rest(in);
}

template <Opcode opcode, auto rest>
void uniform(Reader& in) {
  in.begin_uniform(opcode);
  rest(in);
}

void low_product(Reader& in) { product_and_sum(in, k_low); }
void wide_product(Reader& in) { product_and_sum(in, k_wide); }
void high_product(Reader& in) { product_and_sum(in, k_high); }

void iabs(Reader& in) {
  in.begin(Opcode::iabs);
  in.destination();
  in.source_b(Sign::none);
}

void prmt(Reader& in) {
  in.begin(Opcode::prmt);
  in.immediates(Immediate::bits);
  in.destination();
  in.source_a(Sign::none);
  in.sources_bc(Sign::none, Sign::none);
}

void imnmx(Reader& in) {
  in.begin(Opcode::imnmx);
  in.add_if(!in.flag(73), u32);
  one_of_two(in);
}

// sm_90's.
void vimnmx(Reader& in) {
  in.begin(Opcode::vimnmx);
  in.add_from(72, 2, {u32, none});
  in.expect(81, 6, 0x3f);  // no predicates are written
  one_of_two(in);
}

void viadd(Reader& in) {
  in.begin(Opcode::viadd);
  in.immediates(Immediate::bits);
  in.destination();
  in.source_a(Sign::none);
  in.source_b(Sign::negate);
}

void viaddmnmx(Reader& in) {
  in.begin(Opcode::viaddmnmx);
  in.immediates(Immediate::bits);
  in.add_from(72, 2, {u32, none});
  in.destination();
  in.source_a(Sign::none);
  in.sources_bc(Sign::negate, Sign::none);
  in.source_predicate(87);
}

// The least or greatest of three.
void vimnmx3(Reader& in) {
  in.begin(Opcode::vimnmx3);
  in.immediates(Immediate::bits);
  in.add_from(72, 2, {u32, none});
  in.destination();
  in.source_a(Sign::none);
  in.source_b(Sign::none);
  in.register_high(Sign::none);
  in.source_predicate(87);
}

void popc(Reader& in) {
  in.begin(Opcode::popc);
  in.destination();
  in.source_b(Sign::invert);
}

constexpr std::uint8_t k_b_of_all_kinds = forms_of({1, 4, 5, 6});
// A sum of 64 bits takes no immediate.
constexpr std::uint8_t k_wide_kinds = forms_of({1, 3, 4, 5, 6, 7});
constexpr std::uint8_t k_b_and_c_of_all_kinds = forms_of({1, 2, 3, 4, 5, 6, 7});

constexpr Decoder k_integer_decoders[] = {
    {0x010, k_b_of_all_kinds, lanes<Opcode::iadd3, sum_of_three>},
    {0x024, k_b_and_c_of_all_kinds, lanes<Opcode::imad, low_product>},
    {0x025, k_wide_kinds, lanes<Opcode::imad, wide_product>},
    {0x027, k_b_and_c_of_all_kinds, lanes<Opcode::imad, high_product>},
    {0x013, k_b_of_all_kinds, iabs},
    {0x011, k_b_of_all_kinds, lanes<Opcode::lea, scaled_sum>},
    {0x012, k_b_of_all_kinds, lanes<Opcode::lop3, table_of_three>},
    {0x019, k_b_and_c_of_all_kinds, lanes<Opcode::shf, shift>},
    {0x016, k_b_and_c_of_all_kinds, prmt},
    {0x007, k_b_of_all_kinds, lanes<Opcode::sel, selection>},
    {0x00c, k_b_of_all_kinds, lanes<Opcode::isetp, comparison>},
    {0x017, k_b_of_all_kinds, imnmx, 75, 89},
    {0x048, k_b_of_all_kinds, vimnmx, 90},
    {0x00f, forms_of({1, 4, 5}), vimnmx3, 90},
    {0x036, k_b_of_all_kinds, viadd, 90},
    {0x046, k_b_and_c_of_all_kinds, viaddmnmx, 90},
    {0x100, k_b_of_all_kinds, lanes<Opcode::flo, leading_bit>},
    {0x109, k_b_of_all_kinds, popc},
    {0x090, forms_of({1, 4}), uniform<Opcode::uiadd3, sum_of_three>},
    {0x0a4, forms_of({1, 2, 4}), uniform<Opcode::uimad, low_product>},
    {0x0a5, forms_of({1, 4}), uniform<Opcode::uimad, wide_product>},
    {0x091, forms_of({1, 4}), uniform<Opcode::ulea, scaled_sum>},
    {0x092, forms_of({1, 4}), uniform<Opcode::ulop3, table_of_three>},
    {0x099, forms_of({1, 2, 4}), uniform<Opcode::ushf, shift>},
    {0x087, forms_of({1, 4}), uniform<Opcode::usel, selection>},
    {0x08c, forms_of({1, 4}), uniform<Opcode::uisetp, comparison>},
    {0x0bd, forms_of({1}), uniform<Opcode::uflo, leading_bit>},
};

}  // namespace

std::span<const Decoder> integer_decoders() noexcept { return k_integer_decoders; }

}  // namespace spjit::sass
