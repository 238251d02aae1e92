// FADD FMUL FFMA FSEL FMNMX FSETP FCHK MUFU HFMA2

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

constexpr int k_first_arch_with_nan = 80;
constexpr std::initializer_list<Modifier> k_roundings = {none, rm, rp, rz};

void fadd(Reader& in) {
  in.begin(Opcode::fadd);
  in.immediates(Immediate::float32);
  in.add_if(in.flag(80), ftz);
  in.add_from(78, 2, k_roundings);
  in.add_if(in.flag(77), sat);
  in.destination();
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute, 1, Slot::c);
}

void fmul(Reader& in) {
  in.begin(Opcode::fmul);
  in.immediates(Immediate::float32);
  in.expect(84, 3, 4);  // no scaling of the product
  in.add_if(in.flag(80), ftz);
  in.add_from(78, 2, k_roundings);
  in.add_if(in.flag(77), sat);
  in.destination();
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute);
}

void ffma(Reader& in) {
  in.begin(Opcode::ffma);
  in.immediates(Immediate::float32);
  in.add_if(in.flag(80), ftz);
  in.add_from(78, 2, k_roundings);
  in.add_if(in.flag(77), sat);
  in.destination();
  in.source_a(Sign::negate_absolute);
  in.sources_bc(Sign::negate_absolute, Sign::negate_absolute);
}

void fsel(Reader& in) {
  in.begin(Opcode::fsel);
  in.immediates(Immediate::float32);
  in.add_if(in.flag(80), ftz);
  in.destination();
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute);
  in.source_predicate(87);
}

void fmnmx(Reader& in) {
  in.begin(Opcode::fmnmx);
  in.immediates(Immediate::float32);
  in.add_if(in.flag(80), ftz);
  in.add_if(in.arch() >= k_first_arch_with_nan && in.flag(81), nan);
  in.destination();
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute);
  in.source_predicate(87);
}

void fsetp(Reader& in) {
  in.begin(Opcode::fsetp);
  in.immediates(Immediate::float32);
  in.add_from(76, 4, {f, lt, eq, le, gt, ne, ge, num, nan, ltu, equ, leu, gtu, neu, geu, t});
  in.add_if(in.flag(80), ftz);
  in.add_from(74, 2, {and_, or_, xor_});
  in.destination_predicate(81, true);
  in.destination_predicate(84, true);
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute);
  in.source_predicate(87);
}

void fchk(Reader& in) {
  in.begin(Opcode::fchk);
  in.immediates(Immediate::float32);
  in.destination_predicate(81, true);
  in.source_a(Sign::negate_absolute);
  in.source_b(Sign::negate_absolute);
}

void mufu(Reader& in) {
  in.begin(Opcode::mufu);
  in.immediates(Immediate::float32);
  in.add_from(74, 4, {cos, sin, ex2, lg2, rcp, rsq, refused, refused, sqrt, tanh});
  in.destination();
  in.source_b(Sign::negate_absolute);
}

// Both halves are immediates: what compilers use it for is a move of 32 bits.
void hfma2(Reader& in) {
  in.begin(Opcode::hfma2);
  in.add(mma);
  in.destination();
  Operand& a = in.plain_register(OperandKind::reg, 24);
  a.negated = in.flag(72);
  Operand& b = in.plain_register(OperandKind::reg, 64);
  b.reuse = false;
  for (const unsigned first : {48U, 32U}) {
    Operand half;
    half.kind = OperandKind::half;
    half.value = static_cast<std::int64_t>(in.take(first, 16));
    in.add(half);
  }
}

constexpr Decoder k_float_decoders[] = {
    {0x020, forms_of({1, 4, 5, 6}), fmul},
    {0x021, forms_of({1, 2, 3, 7}), fadd},
    {0x023, forms_of({1, 2, 3, 4, 5, 6, 7}), ffma},
    {0x008, forms_of({1, 4, 5, 6}), fsel},
    {0x009, forms_of({1, 4, 5, 6}), fmnmx},
    {0x00b, forms_of({1, 4, 5, 6}), fsetp},
    {0x102, forms_of({1, 4, 5, 6}), fchk},
    {0x108, forms_of({1, 4, 5, 6}), mufu},
    {0x035, forms_of({2}), hfma2, 80},
};

}  // namespace

std::span<const Decoder> float_decoders() noexcept { return k_float_decoders; }

}  // namespace spjit::sass
