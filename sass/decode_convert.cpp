// F2I I2F I2FP FRND

#include <cstdint>

#include "sass/decoders.hpp"

namespace spjit::sass {
namespace {

using enum Modifier;

void f2i_as(Reader& in, bool is_wide) {
  in.begin(Opcode::f2i);
  in.immediates(Immediate::float32);
  const bool is_signed = in.flag(72);
  const std::uint64_t size = in.take(75, 2);
  in.add_if(in.flag(80), ftz);
  if (is_wide) {
    if (size != 3) in.refuse();
    in.add(is_signed ? s64 : u64);
  } else {
    if (size != 2) in.refuse();
    in.add_if(!is_signed, u32);
  }
  in.expect(84, 2, 2);  // of .f32
  in.add_from(78, 2, {none, floor, ceil, trunc});
  in.add_if(in.flag(77), ntz);
  in.destination(is_wide ? 2 : 1);
  in.source_b(Sign::negate_absolute);
}

void f2i(Reader& in) { f2i_as(in, false); }
void f2i_wide(Reader& in) { f2i_as(in, true); }

void i2f_as(Reader& in, bool is_wide) {
  in.begin(Opcode::i2f);
  in.immediates(Immediate::bits);
  in.expect(75, 2, 2);  // to .f32
  const bool is_signed = in.flag(74);
  in.expect(84, 2, is_wide ? 3 : 2);
  if (is_wide) {
    in.add(is_signed ? s64 : u64);
  } else {
    in.add_if(!is_signed, u32);
  }
  in.add_from(78, 2, {none, rm, rp, rz});
  in.destination();
  in.source_b(Sign::none, is_wide ? 2 : 1);
}

void i2f(Reader& in) { i2f_as(in, false); }
void i2f_wide(Reader& in) { i2f_as(in, true); }

// sm_90's.
void i2fp(Reader& in) {
  in.begin(Opcode::i2fp);
  in.expect(75, 3, 2);
  in.add(f32);
  const bool is_signed = in.flag(74);
  in.expect(84, 2, 2);
  in.add(is_signed ? s32 : u32);
  in.add_from(78, 2, {none, refused, refused, rz});
  in.destination();
  in.source_b(Sign::none);
}

void frnd(Reader& in) {
  in.begin(Opcode::frnd);
  in.immediates(Immediate::float32);
  in.expect(75, 2, 2);
  in.expect(84, 2, 2);
  in.add_if(in.flag(80), ftz);
  in.add_from(78, 2, {none, floor, ceil, trunc});
  in.destination();
  in.source_b(Sign::negate_absolute);
}

constexpr std::uint8_t k_all_kinds = forms_of({1, 4, 5, 6});

constexpr Decoder k_convert_decoders[] = {
    {0x105, k_all_kinds, f2i},      {0x111, k_all_kinds, f2i_wide}, {0x106, k_all_kinds, i2f},
    {0x112, k_all_kinds, i2f_wide}, {0x045, k_all_kinds, i2fp, 90}, {0x107, k_all_kinds, frnd},
};

}  // namespace

std::span<const Decoder> convert_decoders() noexcept { return k_convert_decoders; }

}  // namespace spjit::sass
