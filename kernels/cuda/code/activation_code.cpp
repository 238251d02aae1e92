#include "kernels/cuda/code/activation_code.hpp"

#include <array>
#include <bit>
#include <cstddef>

#include "kernels/activation_constants.hpp"
#include "kernels/activation_tables.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_table_pieces = 16;
/// Floats from a piece's coefficients to the next one's: 32 bytes, so that vectors load them.
constexpr std::size_t k_piece_floats = 8;

using Pieces = GeluPieces<k_table_pieces, 5>;
static_assert(Pieces::k_degree + 1 <= k_piece_floats);

bool has_pieces(Activation activation) {
  return activation == Activation::gelu_erf || activation == Activation::gelu_tanh;
}

bool has_exponential(Activation activation) {
  return activation == Activation::silu || activation == Activation::sigmoid ||
         activation == Activation::tanh;
}

const Pieces& pieces_of(Activation activation) {
  return activation == Activation::gelu_erf ? k_gelu_erf<k_table_pieces>
                                            : k_gelu_tanh<k_table_pieces>;
}

/// Of a float so large the last bit is worth a step: adding rounds to the center of a piece.
float large_of(const Pieces& pieces) { return 0x1.8p23F * pieces.step; }

// Divisions by a d in [1, 2] need no branch, as div.rn does, which takes 12 instructions and 70
// registers more: a polynomial, two steps of Newton's, and, where the quotient has to be rounded as
// that of the host is, one step with its remainder.
//
// SiLU is x * s for x >= 0 and x * e * s below, with e = e^-|x| and s = 1 / (1 + e). e is 2^k *
// e^-r with k = floor(-|x| / ln 2); 2^(k + 64) is no denormal.

/// e^-x of this is 0 in float.
constexpr float k_exp_zero = 128;
/// As k_exponent_field: plus the exponent of 2^64.
constexpr float k_field = 0x1.8p23F + 127 + 64;
constexpr float k_unscaled = 0x1p-64F;
/// 1 / d for 1 <= d <= 2 by powers of d, upwards: relative error 1 / 99 (a Chebyshev polynomial),
/// of which each step of Newton's makes the square.
constexpr std::array<float, 3> k_reciprocal = {210.0F / 99, -144.0F / 99, 32.0F / 99};
constexpr int k_newton_steps = 2;

/// The coefficients, piece after piece, each written by `literal`.
template <class Literal>
void append_pieces(SourceText& text, const Pieces& pieces, Literal literal) {
  for (std::size_t piece = 0; piece < k_table_pieces; ++piece) {
    for (std::size_t power = 0; power < k_piece_floats; ++power) {
      if (piece + power > 0) text << ",";
      literal(text, power <= Pieces::k_degree ? pieces.coefficients[power][piece] : 0.0F);
    }
  }
}

/// PTX about one register.
class PtxActivation {
 public:
  PtxActivation(SourceText& text, std::int64_t accumulator) : text_(text), x_(accumulator) {}

  /// c = compared with `bound` by `comparison`: another register or bound, else c.
  void bound(const char* comparison, float bound) {
    text_ << "setp." << comparison << ".f32 chosen,";
    x() << ",";
    literal(bound) << ";\nselp.f32 ";
    x() << ",";
    literal(bound) << ",";
    x() << ",chosen;\n";
  }

  void gelu(const Pieces& pieces) {
    text_ << "abs.f32 e0,";
    x() << ";\nmin.f32 e0,e0,";  // the number where one is NaN: always one of the pieces
    literal(pieces.step * (k_table_pieces - 1)) << ";\nadd.rn.f32 e1,e0,";
    literal(large_of(pieces)) << ";\nsub.rn.f32 e2,e1,";
    literal(large_of(pieces)) << ";\nsub.rn.f32 e2,e0,e2;\nmov.b32 field,e1;\n"
                              << "mul.wide.u32 entry,field," << k_piece_bytes
                              << ";\nadd.s64 entry,entry,pieces;\n"
                              << "ld.global.nc.v4.f32 {p0,p1,p2,p3},[entry];\n"
                                 "ld.global.nc.v2.f32 {p4,p5},[entry+16];\n";
    for (std::int64_t power = Pieces::k_degree; power > 0; --power) {
      text_ << "fma.rn.f32 p" << power - 1 << ",p" << power << ",e2,p" << power - 1 << ";\n";
    }
    text_ << "mul.rn.f32 e0,e0,p0;\nneg.f32 e0,e0;\nmul.rn.f32 e1,";
    x() << ",0f00000000;\nsetp.lt.f32 chosen,";
    x() << ",0f00000000;\nselp.f32 e1,e1,";
    x() << ",chosen;\nfma.rn.f32 ";
    x() << ",e0,p0,e1;\n";
  }

  void silu() {
    text_ << "abs.f32 e0,";
    x() << ";\nmin.f32 e0,e0,";
    literal(k_exp_zero) << ";\nmul.rn.f32 e1,e0,";
    literal(-k_log2_e) << ";\nadd.rm.f32 e1,e1,";  // rounds down, and is the exponent's field
    literal(k_field) << ";\nsub.rn.f32 e2,e1,";
    literal(k_field) << ";\nfma.rn.f32 e0,e2,";
    literal(k_ln_2) << ",e0;\nmov.f32 e2,";
    literal(k_exp.back()) << ";\n";
    for (std::size_t done = 2; done <= k_exp.size(); ++done) {
      text_ << "fma.rn.f32 e2,e2,e0,";
      literal(k_exp[k_exp.size() - done]) << ";\n";
    }
    text_ << "mov.b32 field,e1;\nshl.b32 field,field,23;\nmov.b32 e1,field;\n"
             "mul.rn.f32 e1,e2,e1;\nmul.rn.f32 e1,e1,";
    literal(k_unscaled) << ";\n";
    reciprocal();
    text_ << "mul.rn.f32 e0,";
    x() << ",e0;\nsetp.lt.f32 chosen,";
    x() << ",0f00000000;\nselp.f32 e1,e1,0f3F800000,chosen;\nmul.rn.f32 ";
    x() << ",e0,e1;\n";
  }

  void sigmoid() {
    text_ << "abs.f32 e0,";
    x() << ";\n";
    decay();
    reciprocal();
    quotient();
    text_ << "sub.rn.f32 e0,0f3F800000,e3;\nsetp.lt.f32 chosen,";
    x() << ",0f00000000;\nselp.f32 ";
    x() << ",e3,e0,chosen;\n";
  }

  void tanh() {
    text_ << "abs.f32 e0,";
    x() << ";\nadd.rn.f32 e0,e0,e0;\n";
    decay();
    reciprocal();
    text_ << "sub.rn.f32 e1,0f3F800000,e1;\n";
    quotient();
    text_ << "copysign.f32 e3,";
    x() << ",e3;\nmul.rn.f32 e0,";
    x() << ",";
    x() << ";\nmov.f32 e1,";
    literal(k_tanh.back()) << ";\n";
    for (std::size_t done = 2; done <= k_tanh.size(); ++done) {
      text_ << "fma.rn.f32 e1,e1,e0,";
      literal(k_tanh[k_tanh.size() - done]) << ";\n";
    }
    text_ << "mul.rn.f32 e1,";
    x() << ",e1;\nabs.f32 e0,";
    x() << ";\nsetp.lt.f32 chosen,e0,";
    literal(k_tanh_near) << ";\nselp.f32 ";
    x() << ",e1,e3,chosen;\n";
  }

  void leaky_relu(float alpha) {
    text_ << "mul.rn.f32 e0,";
    x() << ",";
    literal(alpha) << ";\nsetp.lt.f32 chosen,";
    x() << ",0f00000000;\nselp.f32 ";
    x() << ",e0,";
    x() << ",chosen;\n";
  }

  void hard_sigmoid(float alpha, float beta) {
    text_ << "mul.rn.f32 ";
    x() << ",";
    x() << ",";
    literal(alpha) << ";\nadd.rn.f32 ";
    x() << ",";
    x() << ",";
    literal(beta) << ";\n";
    bound("lt", 0);
    bound("gt", 1);
  }

  /// A gate of 0 to 1. Of NaN it is a number; x * gate is NaN.
  void hard_swish() {
    text_ << "add.rn.f32 e0,";
    x() << ",";
    literal(3) << ";\nmax.f32 e0,e0,";
    literal(0) << ";\nmin.f32 e0,e0,";
    literal(6) << ";\nmul.rn.f32 e0,e0,";
    literal(k_sixth) << ";\nmul.rn.f32 ";
    x() << ",";
    x() << ",e0;\n";
  }

  static constexpr std::int64_t k_piece_bytes = k_piece_floats * sizeof(float);

 private:
  /// e1 = e^-e0 of e0 from 0 on, as decay() of kernels/host/layer/activation_vectors.inc. Of NaN
  /// NaN.
  void decay() {
    text_ << "setp.gt.f32 chosen,e0,";
    literal(k_decay_zero) << ";\nselp.f32 e0,";
    literal(k_decay_zero) << ",e0,chosen;\nfma.rn.f32 e1,e0,";
    literal(-k_log2_e) << ",";
    literal(k_exponent_field) << ";\nsub.rn.f32 e2,e1,";
    literal(k_exponent_field) << ";\nfma.rn.f32 e0,e2,";
    literal(k_ln_2) << ",e0;\nmov.f32 e2,";
    literal(k_decay.back()) << ";\n";
    for (std::size_t done = 2; done <= k_decay.size(); ++done) {
      text_ << "fma.rn.f32 e2,e2,e0,";
      literal(k_decay[k_decay.size() - done]) << ";\n";
    }
    text_ << "mov.b32 field,e1;\nshl.b32 field,field,23;\nmov.b32 e1,field;\n"
             "mul.rn.f32 e1,e2,e1;\n";
  }

  /// e0 = 1 / (1 + e1), e2 = -(1 + e1).
  void reciprocal() {
    text_ << "add.rn.f32 e2,e1,0f3F800000;\nfma.rn.f32 e0,e2,";
    literal(k_reciprocal[2]) << ",";
    literal(k_reciprocal[1]) << ";\nfma.rn.f32 e0,e0,e2,";
    literal(k_reciprocal[0]) << ";\nneg.f32 e2,e2;\n";
    for (int step = 0; step < k_newton_steps; ++step) {
      text_ << "fma.rn.f32 e3,e2,e0,0f3F800000;\nfma.rn.f32 e0,e0,e3,e0;\n";
    }
  }

  /// e3 = e1 / -e2 with e0 = 1 / -e2: the quotient rounded to nearest, for every e1 and e2 of
  /// sigmoid and tanh. (Of -e2 = 2 - 2^-23 alone e0 may be the neighbor of what 1 / -e2 is rounded
  /// to.)
  void quotient() {
    text_ << "mul.rn.f32 e3,e1,e0;\nfma.rn.f32 e1,e2,e3,e1;\nfma.rn.f32 e3,e1,e0,e3;\n";
  }

  SourceText& x() { return text_ << "c" << x_; }
  SourceText& literal(float value) { return append_ptx_literal(text_, value); }

  SourceText& text_;
  std::int64_t x_;
};

/// "0x1.8p+1f", or a call for what has no literal.
SourceText& literal(SourceText& text, float value) { return append_cuda_literal(text, value); }

/// `p` = the polynomial of `at` with these coefficients of its powers, upwards.
template <std::size_t Count>
void emit_cuda_polynomial(SourceText& text, const char* at,
                          const std::array<float, Count>& coefficients) {
  text << "  float p = ";
  literal(text, coefficients.back()) << ";\n";
  for (std::size_t done = 2; done <= Count; ++done) {
    text << "  p = __fmaf_rn(p, " << at << ", ";
    literal(text, coefficients[Count - done]) << ");\n";
  }
}

/// `s` = 1 / `d`.
void emit_cuda_reciprocal(SourceText& text) {
  text << "  float s = __fmaf_rn(__fmaf_rn(d, ";
  literal(text, k_reciprocal[2]) << ", ";
  literal(text, k_reciprocal[1]) << "), d, ";
  literal(text, k_reciprocal[0]) << ");\n";
  for (int step = 0; step < k_newton_steps; ++step) {
    text << "  s = __fmaf_rn(s, __fmaf_rn(-d, s, 1.0f), s);\n";
  }
}

void emit_cuda_gelu(SourceText& text, const Pieces& pieces) {
  text << "  const float t = fminf(fabsf(x), ";
  literal(text, pieces.step * (k_table_pieces - 1)) << ");\n  const float rounded = __fadd_rn(t, ";
  literal(text, large_of(pieces)) << ");\n  const float d = __fsub_rn(t, __fsub_rn(rounded, ";
  literal(text, large_of(pieces))
      << "));\n  const float4* const piece = reinterpret_cast<const float4*>(spjit_pieces) + 2 * "
      << "(__float_as_uint(rounded) & " << std::int64_t{k_table_pieces - 1} << "u);\n"
      << "  const float4 low = __ldg(piece);\n  const float4 high = __ldg(piece + 1);\n"
         "  float p = __fmaf_rn(high.y, d, high.x);\n"
         "  p = __fmaf_rn(p, d, low.w);\n  p = __fmaf_rn(p, d, low.z);\n"
         "  p = __fmaf_rn(p, d, low.y);\n  p = __fmaf_rn(p, d, low.x);\n"
         "  return __fmaf_rn(-__fmul_rn(t, p), p, x < 0.0f ? __fmul_rn(x, 0.0f) : x);\n";
}

void emit_cuda_silu(SourceText& text) {
  text << "  const float limited = fminf(fabsf(x), ";
  literal(text, k_exp_zero) << ");\n  const float field = __fadd_rd(__fmul_rn(limited, ";
  literal(text, -k_log2_e) << "), ";
  literal(text, k_field) << ");\n  const float r = __fmaf_rn(__fsub_rn(field, ";
  literal(text, k_field) << "), ";
  literal(text, k_ln_2) << ", limited);\n";
  emit_cuda_polynomial(text, "r", k_exp);
  text << "  const float power = __uint_as_float(__float_as_uint(field) << 23);\n"
          "  const float e = __fmul_rn(__fmul_rn(p, power), ";
  literal(text, k_unscaled) << ");\n  const float d = __fadd_rn(e, 1.0f);\n";
  emit_cuda_reciprocal(text);
  text << "  return __fmul_rn(__fmul_rn(x, s), x < 0.0f ? e : 1.0f);\n";
}

/// `e` = e^-t as decay() of kernels/host/layer/activation_vectors.inc, and the quotient of
/// `numerator` by 1 + e.
void emit_cuda_decay_quotient(SourceText& text, const char* t, const char* numerator) {
  text << "  float limited = " << t << ";\n  limited = limited > ";
  literal(text, k_decay_zero) << " ? ";
  literal(text, k_decay_zero) << " : limited;\n  const float field = __fmaf_rn(limited, ";
  literal(text, -k_log2_e) << ", ";
  literal(text, k_exponent_field) << ");\n  const float r = __fmaf_rn(__fsub_rn(field, ";
  literal(text, k_exponent_field) << "), ";
  literal(text, k_ln_2) << ", limited);\n";
  emit_cuda_polynomial(text, "r", k_decay);
  text << "  const float e = __fmul_rn(p, __uint_as_float(__float_as_uint(field) << 23));\n"
          "  const float d = __fadd_rn(e, 1.0f);\n";
  emit_cuda_reciprocal(text);
  text << "  const float a = " << numerator
       << ";\n  float quotient = __fmul_rn(a, s);\n"
          "  quotient = __fmaf_rn(__fmaf_rn(-d, quotient, a), s, quotient);\n";
}

void emit_cuda_sigmoid(SourceText& text) {
  emit_cuda_decay_quotient(text, "fabsf(x)", "e");
  text << "  return x < 0.0f ? quotient : __fsub_rn(1.0f, quotient);\n";
}

void emit_cuda_tanh(SourceText& text) {
  emit_cuda_decay_quotient(text, "__fadd_rn(fabsf(x), fabsf(x))", "__fsub_rn(1.0f, e)");
  text << "  const float square = __fmul_rn(x, x);\n  p = ";
  literal(text, k_tanh.back()) << ";\n";
  for (std::size_t done = 2; done <= k_tanh.size(); ++done) {
    text << "  p = __fmaf_rn(p, square, ";
    literal(text, k_tanh[k_tanh.size() - done]) << ");\n";
  }
  text << "  return fabsf(x) < ";
  literal(text, k_tanh_near) << " ? __fmul_rn(x, p) : copysignf(quotient, x);\n";
}

void emit_cuda_clamp(SourceText& text, float low, float high) {
  text << "  const float raised = x < ";
  literal(text, low) << " ? ";
  literal(text, low) << " : x;\n  return raised > ";
  literal(text, high) << " ? ";
  literal(text, high) << " : raised;\n";
}

void emit_cuda_leaky_relu(SourceText& text, float alpha) {
  text << "  return x < 0.0f ? __fmul_rn(x, ";
  literal(text, alpha) << ") : x;\n";
}

void emit_cuda_hard_sigmoid(SourceText& text, float alpha, float beta) {
  text << "  x = __fadd_rn(__fmul_rn(x, ";
  literal(text, alpha) << "), ";
  literal(text, beta) << ");\n";
  emit_cuda_clamp(text, 0, 1);
}

void emit_cuda_hard_swish(SourceText& text) {
  text << "  const float gate = fminf(fmaxf(__fadd_rn(x, ";
  literal(text, 3) << "), ";
  literal(text, 0) << "), ";
  literal(text, 6) << ");\n  return __fmul_rn(x, __fmul_rn(gate, ";
  literal(text, k_sixth) << "));\n";
}

void emit_cuda_body(SourceText& text, const Epilogue& epilogue) {
  switch (epilogue.activation) {
    case Activation::none:
      return;
    case Activation::relu:
      text << "  return x < 0.0f ? 0.0f : x;\n";
      return;
    case Activation::gelu_erf:
    case Activation::gelu_tanh:
      return emit_cuda_gelu(text, pieces_of(epilogue.activation));
    case Activation::silu:
      return emit_cuda_silu(text);
    case Activation::clamp:
      return emit_cuda_clamp(text, epilogue.low, epilogue.high);
    case Activation::hard_swish:
      return emit_cuda_hard_swish(text);
    case Activation::leaky_relu:
      return emit_cuda_leaky_relu(text, epilogue.alpha);
    case Activation::hard_sigmoid:
      return emit_cuda_hard_sigmoid(text, epilogue.alpha, epilogue.beta);
    case Activation::sigmoid:
      return emit_cuda_sigmoid(text);
    case Activation::tanh:
      return emit_cuda_tanh(text);
  }
}

}  // namespace

std::int64_t activation_instructions(Activation activation) {
  switch (activation) {
    case Activation::none:
      return 0;
    case Activation::relu:
      return 2;
    case Activation::clamp:
      return 3;
    case Activation::hard_swish:
      return 5;
    case Activation::leaky_relu:
      return 3;
    case Activation::hard_sigmoid:
      return 6;
    case Activation::gelu_erf:
    case Activation::gelu_tanh:
      return 17;
    case Activation::silu:
      return 26;
    case Activation::sigmoid:
      return 27;
    case Activation::tanh:
      return 36;
  }
  return 0;
}

void emit_ptx_table(SourceText& text, Activation activation) {
  if (!has_pieces(activation)) return;
  text << ".global .align 32 .f32 spjit_pieces[" << std::int64_t{k_table_pieces * k_piece_floats}
       << "] = {";
  append_pieces(text, pieces_of(activation), append_ptx_literal);
  text << "};\n\n";
}

void emit_ptx_activation_registers(SourceText& text, Activation activation) {
  if (activation == Activation::none) return;
  text << ".reg .pred chosen;\n";
  const bool has_one = activation == Activation::hard_swish || activation == Activation::leaky_relu;
  if (has_one) text << ".reg .f32 e<1>;\n";
  if (has_pieces(activation) || has_exponential(activation)) {
    text << ".reg .f32 e<4>;\n.reg .b32 field;\n";
  }
  if (!has_pieces(activation)) return;
  const auto first = std::bit_cast<std::uint32_t>(large_of(pieces_of(activation)));
  text << ".reg .f32 p<6>;\n.reg .b64 entry, pieces;\nmov.u64 pieces,spjit_pieces;\nsub.s64 pieces,"
       << "pieces," << std::int64_t{first} * PtxActivation::k_piece_bytes << ";\n";
}

void emit_ptx_activation(SourceText& text, const Epilogue& epilogue, std::int64_t accumulator) {
  PtxActivation code(text, accumulator);
  switch (epilogue.activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return code.bound("lt", 0);
    case Activation::gelu_erf:
    case Activation::gelu_tanh:
      return code.gelu(pieces_of(epilogue.activation));
    case Activation::silu:
      return code.silu();
    case Activation::clamp:
      code.bound("lt", epilogue.low);
      return code.bound("gt", epilogue.high);
    case Activation::hard_swish:
      return code.hard_swish();
    case Activation::leaky_relu:
      return code.leaky_relu(epilogue.alpha);
    case Activation::hard_sigmoid:
      return code.hard_sigmoid(epilogue.alpha, epilogue.beta);
    case Activation::sigmoid:
      return code.sigmoid();
    case Activation::tanh:
      return code.tanh();
  }
}

void emit_cuda_activation(SourceText& text, const Epilogue& epilogue) {
  if (epilogue.activation == Activation::none) return;
  if (has_pieces(epilogue.activation)) {
    text << "static __device__ const float __align__(32) spjit_pieces["
         << std::int64_t{k_table_pieces * k_piece_floats} << "] = {";
    append_pieces(text, pieces_of(epilogue.activation), append_cuda_literal);
    text << "};\n\n";
  }
  text << "static __device__ __forceinline__ float spjit_activate(float x) {\n";
  emit_cuda_body(text, epilogue);
  text << "}\n\n";
}

}  // namespace spjit
