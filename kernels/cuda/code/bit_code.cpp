#include "kernels/cuda/code/bit_code.hpp"

#include <fmt/format.h>

namespace spjit {
namespace {

/// Of the low half of `half`. The exponent's bias becomes that of fp32 by a product, which is exact
/// for denormals, too. Infinities and NaN get the exponent that they have there.
void widen_f16(CudaCode& code, std::string_view name) {
  constexpr float k_bias = 0x1p112F;
  constexpr std::int64_t k_infinity = 0x7C00 << 13;
  code.set("sign", bit_and("half", 0x8000));
  code.set("sign", shift_left("sign", 16));
  code.set("half", bit_and("half", 0x7FFF));
  code.set("half", shift_left("half", 13));
  code.set("is_endless", compare("ge", "half", k_infinity));
  code.set(name, float_of_bits("half"));
  code.set(name, product_of(name, CodeOperand::of(k_bias)));
  code.set("half", bits_of_float(name));
  code.set("half", bit_or("half", "sign"));
  code.set("sign", select("is_endless", std::int64_t{0x7F80'0000}, 0));
  code.set("half", bit_or("half", "sign"));
  code.set(name, float_of_bits("half"));
}

}  // namespace

CodeExpression ones_of(const CodeOperand& a) {
  return {CodeType::u32, fmt::format("popc.b32 $,{};\n", a.ptx),
          fmt::format("static_cast<unsigned>(__popc({}))", a.cuda)};
}

CodeExpression leading_zeros(const CodeOperand& a) {
  return {CodeType::u32, fmt::format("clz.b32 $,{};\n", a.ptx),
          fmt::format("static_cast<unsigned>(__clz(static_cast<int>({})))", a.cuda)};
}

CodeExpression float_of_bits(const CodeOperand& a) {
  return {CodeType::f32, fmt::format("mov.b32 $,{};\n", a.ptx),
          fmt::format("__uint_as_float({})", a.cuda)};
}

void widen_half(CudaCode& code, std::string_view name, const CodeHalf& of) {
  code.set("half", bits_of_float(of.pair));
  if (of.type == DataType::bf16) {
    code.set("half",
             of.is_high ? bit_and("half", std::int64_t{0xFFFF'0000}) : shift_left("half", 16));
    code.set(name, float_of_bits("half"));
    return;
  }
  if (of.is_high) code.set("half", shift_right("half", 16));
  widen_f16(code, name);
}

}  // namespace spjit
