#include "kernels/cuda/code/cuda_code.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cuda/code/activation_code.hpp"
#include "kernels/cuda/code/ptx_text.hpp"
#include "kernels/cuda/code/sizes.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_expected_bytes = 1 << 15;

/// Of addresses, and of activations.
constexpr std::array<std::string_view, 5> k_taken_names = {"scratch", "chosen", "field", "entry",
                                                           "pieces"};

/// How a type is written.
struct TypeTexts {
  std::string_view cuda;
  std::string_view ptx_register;
  std::string_view ptx_parameter;
  std::string_view ptx_element;  ///< of what a pointer points to
  std::string_view cuda_vector;  ///< "float", to which the number of elements is added
  std::int64_t element_bytes;
};

const TypeTexts& texts_of(CodeType type) {
  static constexpr std::array<TypeTexts, 9> k_texts = {{
      {"bool", "pred", "", "", "", 0},
      {"unsigned", "b32", "u32", "", "", 0},
      {"long long", "b64", "u64", "", "", 0},
      {"float", "f32", "f32", "", "", 0},
      {"const float*", "b64", "u64", "f32", "float", 4},
      {"float*", "b64", "u64", "f32", "float", 4},
      {"const unsigned*", "b64", "u64", "u32", "uint", 4},
      {"const long long*", "b64", "u64", "u64", "longlong", 8},
      {"float*", "b32", "", "f32", "float", 4},
  }};
  return k_texts.at(static_cast<std::size_t>(type));
}

CodeType element_of(CodeType pointer) {
  switch (pointer) {
    case CodeType::words:
      return CodeType::u32;
    case CodeType::longs:
      return CodeType::s64;
    default:
      return CodeType::f32;
  }
}

CodeExpression of_two(CodeType type, std::string_view ptx, std::string_view cuda,
                      const std::array<const CodeOperand*, 2>& of) {
  const auto& [a, b] = of;
  return {type, fmt::format("{} $,{},{};\n", ptx, a->ptx, b->ptx),
          fmt::format("{} {} {}", a->cuda, cuda, b->cuda)};
}

CodeExpression call_of_two(CodeType type, std::string_view ptx, std::string_view cuda,
                           const std::array<const CodeOperand*, 2>& of) {
  const auto& [a, b] = of;
  return {type, fmt::format("{} $,{},{};\n", ptx, a->ptx, b->ptx),
          fmt::format("{}({}, {})", cuda, a->cuda, b->cuda)};
}

std::string replaced(std::string text, std::string_view name) {
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    text.replace(at, 1, name);
  }
  return text;
}

/// "{a,b}", or "a" alone.
std::string ptx_list(std::span<const std::string> names) {
  return names.size() == 1 ? names.front() : fmt::format("{{{}}}", fmt::join(names, ","));
}

std::string ptx_vector(std::size_t count) { return count == 1 ? "" : fmt::format("v{}.", count); }

/// "row + 4"
std::string element_at(const CodePlace& place) {
  if (place.offset == 0) return place.pointer;
  return fmt::format("{} + {}", place.pointer, place.offset);
}

void check_vector(std::size_t count) {
  if (count == 1 || count == 2 || count == 4) return;
  throw InvalidArgument(fmt::format("an access to {} elements; expected 1, 2 or 4", count));
}

}  // namespace

CodeOperand::CodeOperand(std::int64_t value) : ptx(std::to_string(value)), cuda(ptx) {
  cuda += value >= 0 && value <= std::int64_t{0xFFFF'FFFF} ? "u" : "ll";
}

CodeOperand CodeOperand::of(float value) {
  CodeOperand operand("");
  SourceText ptx(0);
  append_ptx_literal(ptx, value);
  operand.ptx = std::move(ptx).take();
  SourceText cuda(0);
  append_cuda_literal(cuda, value);
  operand.cuda = std::move(cuda).take();
  return operand;
}

std::string numbered(std::string_view name, std::int64_t number) {
  return fmt::format("{}{}", name, number);
}

CodeExpression copy(CodeType type, const CodeOperand& a) {
  return {type, fmt::format("mov.{} $,{};\n", texts_of(type).ptx_register, a.ptx), a.cuda};
}
CodeExpression add(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "add.u32", "+", {&a, &b});
}
CodeExpression subtract(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "sub.u32", "-", {&a, &b});
}
CodeExpression multiply(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "mul.lo.u32", "*", {&a, &b});
}
CodeExpression multiply_add(const CodeOperand& a, const CodeOperand& b, const CodeOperand& c) {
  return {CodeType::u32, fmt::format("mad.lo.u32 $,{},{},{};\n", a.ptx, b.ptx, c.ptx),
          fmt::format("{} * {} + {}", a.cuda, b.cuda, c.cuda)};
}
CodeExpression divide(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "div.u32", "/", {&a, &b});
}
CodeExpression smaller(const CodeOperand& a, const CodeOperand& b) {
  return call_of_two(CodeType::u32, "min.u32", "min", {&a, &b});
}
CodeExpression larger(const CodeOperand& a, const CodeOperand& b) {
  return call_of_two(CodeType::u32, "max.u32", "max", {&a, &b});
}
CodeExpression bit_and(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "and.b32", "&", {&a, &b});
}
CodeExpression bit_or(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::u32, "or.b32", "|", {&a, &b});
}
CodeExpression shift_right(const CodeOperand& a, std::int64_t bits) {
  const CodeOperand by(bits);
  return of_two(CodeType::u32, "shr.u32", ">>", {&a, &by});
}
CodeExpression shift_left(const CodeOperand& a, std::int64_t bits) {
  const CodeOperand by(bits);
  return of_two(CodeType::u32, "shl.b32", "<<", {&a, &by});
}
CodeExpression bits_of_float(const CodeOperand& a) {
  return {CodeType::u32, fmt::format("mov.b32 $,{};\n", a.ptx),
          fmt::format("__float_as_uint({})", a.cuda)};
}

CodeExpression special(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> k_names = {
      {{"ctaid.", "blockIdx."},
       {"nctaid.", "gridDim."},
       {"tid.", "threadIdx."},
       {"ntid.", "blockDim."}}};
  for (const auto& [ptx, cuda] : k_names) {
    if (!name.starts_with(ptx)) continue;
    return {CodeType::u32, fmt::format("mov.u32 $,%{};\n", name),
            std::string(cuda) + std::string(name.substr(ptx.size()))};
  }
  throw InvalidArgument(fmt::format("no special register {}", name));
}

CodeExpression select(std::string_view p, const CodeOperand& a, const CodeOperand& b) {
  return {CodeType::u32, fmt::format("selp.b32 $,{},{},{};\n", a.ptx, b.ptx, p),
          fmt::format("{} ? {} : {}", p, a.cuda, b.cuda)};
}

CodeExpression distance(const CodeOperand& a, const CodeOperand& b) {
  return {CodeType::u32,
          fmt::format("sub.s64 scratch,{},{};\ncvt.u32.u64 $,scratch;\n", a.ptx, b.ptx),
          fmt::format("static_cast<unsigned>({} - {})", a.cuda, b.cuda)};
}

CodeExpression compare(std::string_view how, const CodeOperand& a, const CodeOperand& b) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> k_names = {
      {{"lt", "<"}, {"le", "<="}, {"gt", ">"}, {"ge", ">="}, {"eq", "=="}, {"ne", "!="}}};
  for (const auto& [ptx, cuda] : k_names) {
    if (how == ptx) return of_two(CodeType::pred, fmt::format("setp.{}.u32", ptx), cuda, {&a, &b});
  }
  throw InvalidArgument(fmt::format("no comparison {}", how));
}

CodeExpression both(std::string_view p, std::string_view q) {
  return {CodeType::pred, fmt::format("and.pred $,{},{};\n", p, q), fmt::format("{} && {}", p, q)};
}
CodeExpression either(std::string_view p, std::string_view q) {
  return {CodeType::pred, fmt::format("or.pred $,{},{};\n", p, q), fmt::format("{} || {}", p, q)};
}

CodeExpression widen(const CodeOperand& a) {
  return {CodeType::s64, fmt::format("cvt.u64.u32 $,{};\n", a.ptx), a.cuda};
}

CodeExpression multiply_far(const CodeOperand& a, const CodeOperand& b) {
  return of_two(CodeType::s64, "mul.lo.s64", "*", {&a, &b});
}

CodeExpression fused(const CodeOperand& a, const CodeOperand& b, const CodeOperand& c) {
  return {CodeType::f32, fmt::format("fma.rn.f32 $,{},{},{};\n", a.ptx, b.ptx, c.ptx),
          fmt::format("__fmaf_rn({}, {}, {})", a.cuda, b.cuda, c.cuda)};
}
CodeExpression product_of(const CodeOperand& a, const CodeOperand& b) {
  return call_of_two(CodeType::f32, "mul.rn.f32", "__fmul_rn", {&a, &b});
}
CodeExpression sum_of(const CodeOperand& a, const CodeOperand& b) {
  return call_of_two(CodeType::f32, "add.rn.f32", "__fadd_rn", {&a, &b});
}

CudaCode::CudaCode(int sm, const Epilogue& epilogue)
    : epilogue_(epilogue),
      ptx_(k_expected_bytes),
      cuda_(k_expected_bytes),
      body_(k_expected_bytes) {
  ptx_ << "// spjit\n.version " << ptx_version(sm) << "\n.target sm_" << std::int64_t{sm}
       << "\n.address_size 64\n\n";
  emit_ptx_table(ptx_, epilogue.activation);
  cuda_ << "// spjit\n\n";
  emit_cuda_activation(cuda_, epilogue);
}

SourceText& CudaCode::line() {
  for (std::size_t i = 0; i < scopes_.size(); ++i) cuda_ << "  ";
  return cuda_;
}

void CudaCode::comment(std::string_view text) {
  body_ << "// " << text << "\n";
  line() << "// " << text << "\n";
}

void CudaCode::begin_kernel(const Kernel& kernel, std::span<const Parameter> parameters) {
  parameters_.assign(parameters.begin(), parameters.end());
  registers_.clear();
  body_ = SourceText(k_expected_bytes);
  const std::string shared = kernel.name + "_shared";
  if (kernel.shared_floats > 0) {
    ptx_ << ".shared .align 16 .b8 " << shared << "[" << kernel.shared_floats * k_float_bytes
         << "];\n";
  }
  ptx_ << ".visible .entry " << kernel.name << "(";
  cuda_ << "extern \"C\" __global__ void __launch_bounds__(" << kernel.threads << ", "
        << kernel.min_blocks << ")\n"
        << kernel.name << "(";
  for (const Parameter& parameter : parameters_) {
    const TypeTexts& texts = texts_of(parameter.type);
    const bool is_first = &parameter == parameters_.data();
    ptx_ << (is_first ? "" : ", ") << ".param ." << texts.ptx_parameter << " kernel_"
         << parameter.name;
    cuda_ << (is_first ? "" : ", ") << texts.cuda << " " << parameter.name;
  }
  ptx_ << ")\n.maxntid " << kernel.threads << ", 1, 1\n.minnctapersm " << kernel.min_blocks
       << "\n{\n.reg .b64 scratch;\n";
  cuda_ << ") {\n";
  scopes_.push_back({});
  if (kernel.shared_floats > 0) {
    line() << "__shared__ __align__(16) float shared[" << kernel.shared_floats << "];\n";
    declare("shared", CodeType::shared);
    body_ << "mov.u32 shared," << shared << ";\n";
  }
}

void CudaCode::end_kernel() {
  scopes_.pop_back();
  for (const auto& [name, type] : registers_) {
    ptx_ << ".reg ." << texts_of(type).ptx_register << " " << name << ";\n";
  }
  emit_ptx_activation_registers(ptx_, epilogue_.activation);
  ptx_ << std::move(body_).take() << "exit;\n}\n\n";
  cuda_ << "}\n\n";
}

CodeType CudaCode::type_of(std::string_view name) const {
  const auto found = registers_.find(name);
  if (found == registers_.end()) {
    throw InvalidArgument(fmt::format("no variable {} in the code of a kernel", name));
  }
  return found->second;
}

bool CudaCode::declare(std::string_view name, CodeType type) {
  if (std::ranges::find(k_taken_names, name) != k_taken_names.end()) {
    throw InvalidArgument(fmt::format("the code of a kernel has a {} of its own", name));
  }
  const auto [found, is_new] = registers_.emplace(name, type);
  if (found->second != type) {
    throw InvalidArgument(fmt::format("{} has two types in the code of a kernel", name));
  }
  for (const Scope& scope : scopes_) {
    if (scope.names.contains(name)) return false;
  }
  scopes_.back().names.emplace(name, type);
  return true;
}

void CudaCode::assign(std::string_view name, CodeType type, std::string_view cuda) {
  const bool is_new = declare(name, type);
  line() << (is_new ? texts_of(type).cuda : "") << (is_new ? " " : "") << name << " = " << cuda
         << ";\n";
}

void CudaCode::read(std::string_view parameter) {
  for (const Parameter& given : parameters_) {
    if (given.name != parameter) continue;
    const TypeTexts& texts = texts_of(given.type);
    declare(parameter, given.type);
    body_ << "ld.param." << texts.ptx_parameter << " " << parameter << ",[kernel_" << parameter
          << "];\n";
    if (!texts.ptx_element.empty()) {
      body_ << "cvta.to.global.u64 " << parameter << "," << parameter << ";\n";
    }
    return;
  }
  throw InvalidArgument(fmt::format("no parameter {} of a kernel", parameter));
}

CodeStride CudaCode::stride(std::string_view parameter) {
  read(parameter);
  body_ << "shl.b32 " << parameter << "," << parameter << ",2;\n";
  return {.name = std::string(parameter), .is_bytes = true};
}

CodeStride CudaCode::far_stride(std::string_view parameter) {
  read(parameter);
  return {.name = std::string(parameter)};
}

void CudaCode::set(std::string_view name, const CodeExpression& expression,
                   std::string_view guard) {
  if (guard.empty()) {
    body_ << replaced(expression.ptx, name);
    return assign(name, expression.type, expression.cuda);
  }
  if (expression.ptx.find('\n') + 1 != expression.ptx.size()) {
    throw InvalidArgument(fmt::format("several instructions for {} have one guard", name));
  }
  static_cast<void>(type_of(name));
  body_ << "@" << guard << " " << replaced(expression.ptx, name);
  line() << "if (" << guard << ") " << name << " = " << expression.cuda << ";\n";
}

void CudaCode::move(std::string_view name, std::string_view pointer, const CodeOperand& index) {
  const CodeType type = type_of(pointer);
  body_ << "mul.wide.u32 scratch," << index.ptx << "," << texts_of(type).element_bytes
        << ";\nadd.s64 " << name << "," << pointer << ",scratch;\n";
  assign(name, type, fmt::format("{} + {}", pointer, index.cuda));
}

void CudaCode::move(std::string_view name, std::string_view pointer, const CodeOperand& index,
                    const CodeStride& stride) {
  constexpr std::int64_t k_most_factor = 0xFFFF'FFFF;
  const CodeType type = type_of(pointer);
  const std::int64_t bytes = stride.fixed * k_float_bytes;
  std::string factor = std::to_string(stride.fixed) + "ll";
  if (!stride.name.empty()) {
    factor = stride.name;
    body_ << "mul.wide.u32 scratch," << index.ptx << "," << stride.name << ";\n";
    if (!stride.is_bytes) body_ << "shl.b64 scratch,scratch,2;\n";
  } else if (bytes <= k_most_factor) {
    body_ << "mul.wide.u32 scratch," << index.ptx << "," << bytes << ";\n";
  } else {
    body_ << "cvt.u64.u32 scratch," << index.ptx << ";\nmul.lo.s64 scratch,scratch," << bytes
          << ";\n";
  }
  body_ << "add.s64 " << name << "," << pointer << ",scratch;\n";
  assign(name, type,
         fmt::format("{} + static_cast<long long>({}) * {}", pointer, index.cuda, factor));
}

void CudaCode::move_far(std::string_view name, std::string_view pointer, std::string_view index) {
  const CodeType type = type_of(pointer);
  const std::int64_t bytes = texts_of(type).element_bytes;
  body_ << "shl.b64 scratch," << index << "," << shift_of(bytes) << ";\nadd.s64 " << name << ","
        << pointer << ",scratch;\n";
  assign(name, type, fmt::format("{} + {}", pointer, index));
}

void CudaCode::move_to_item(std::string_view name, std::string_view item,
                            std::string_view distance) {
  const CodeType type = type_of(name);
  body_ << "cvt.u64.u32 scratch," << item << ";\nshl.b64 scratch,scratch,2;\nmad.lo.s64 " << name
        << "," << distance << ",scratch," << name << ";\n";
  assign(name, type, fmt::format("{} + {} * {}", name, item, distance));
}

void CudaCode::shared_at(std::string_view name, const CodeOperand& index) {
  shared_move(name, "shared", index);
}

void CudaCode::shared_move(std::string_view name, std::string_view pointer,
                           const CodeOperand& index) {
  body_ << "mad.lo.u32 " << name << "," << index.ptx << "," << k_float_bytes << "," << pointer
        << ";\n";
  assign(name, CodeType::shared, fmt::format("{} + {}", pointer, index.cuda));
}

void CudaCode::load(std::span<const std::string> names, const CodePlace& from,
                    const CodeGuard& guard) {
  load_from(names, from, guard, true);
}

void CudaCode::load_written(std::span<const std::string> names, const CodePlace& from,
                            const CodeGuard& guard) {
  load_from(names, from, guard, false);
}

void CudaCode::load_from(std::span<const std::string> names, const CodePlace& from,
                         const CodeGuard& guard, bool is_read_only) {
  check_vector(names.size());
  const CodeType pointer = type_of(from.pointer);
  const CodeType element = element_of(pointer);
  const TypeTexts& texts = texts_of(pointer);
  const bool is_shared = pointer == CodeType::shared;
  const bool is_cached = is_read_only && !is_shared;
  const bool has_zero = !guard.name.empty() && guard.otherwise == CodeOtherwise::zero;
  if (has_zero) {
    for (const std::string& name : names) {
      body_ << "mov." << texts_of(element).ptx_register << " " << name << ","
            << (element == CodeType::f32 ? "0f00000000" : "0") << ";\n";
    }
  }
  if (!guard.name.empty()) body_ << "@" << guard.name << " ";
  body_ << "ld."
        << (is_shared   ? "shared."
            : is_cached ? "global.nc."
                        : "global.")
        << ptx_vector(names.size()) << texts.ptx_element << " " << ptx_list(names) << ",["
        << from.pointer << "+" << from.offset * texts.element_bytes << "];\n";
  if (has_zero) {
    for (const std::string& name : names) {
      assign(name, element, element == CodeType::f32 ? "0.0f" : "0");
    }
  }
  if (!guard.name.empty()) {
    line() << "if (" << guard.name << ") {\n";
    scopes_.push_back({});
  }
  load_in_cuda(names, from, is_cached);
  if (guard.name.empty()) return;
  scopes_.pop_back();
  line() << "}\n";
}

void CudaCode::load_in_cuda(std::span<const std::string> names, const CodePlace& from,
                            bool is_cached) {
  const CodeType pointer = type_of(from.pointer);
  const CodeType element = element_of(pointer);
  const std::string place = element_at(from);
  if (names.size() == 1) {
    const std::string plain = fmt::format("{}[{}]", from.pointer, from.offset);
    return assign(names.front(), element, is_cached ? "__ldg(" + place + ")" : plain);
  }
  const std::string vector = fmt::format("{}{}", texts_of(pointer).cuda_vector, names.size());
  const std::string whole = fmt::format("reinterpret_cast<const {}*>({})", vector, place);
  const std::int64_t number = vectors_++;
  line() << "const " << vector << " v" << number << " = "
         << (is_cached ? "__ldg(" + whole + ")" : "*" + whole) << ";\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    assign(names[i], element, fmt::format("v{}.{}", number, "xyzw"[i]));
  }
}

void CudaCode::store(std::span<const std::string> names, const CodePlace& to,
                     std::string_view guard) {
  check_vector(names.size());
  const CodeType pointer = type_of(to.pointer);
  if (!guard.empty()) body_ << "@" << guard << " ";
  body_ << (pointer == CodeType::shared ? "st.shared." : "st.global.") << ptx_vector(names.size())
        << "f32 [" << to.pointer << "+" << to.offset * k_float_bytes << "]," << ptx_list(names)
        << ";\n";
  line() << (guard.empty() ? "" : fmt::format("if ({}) ", guard));
  if (names.size() == 1) {
    cuda_ << to.pointer << "[" << to.offset << "] = " << names.front() << ";\n";
    return;
  }
  cuda_ << fmt::format("*reinterpret_cast<float{}*>({}) = make_float{}({});\n", names.size(),
                       element_at(to), names.size(), fmt::join(names, ", "));
}

void CudaCode::barrier() {
  body_ << "bar.sync 0;\n";
  line() << "__syncthreads();\n";
}

void CudaCode::leave_if(std::string_view p) {
  body_ << "@" << p << " exit;\n";
  line() << "if (" << p << ") return;\n";
}

void CudaCode::begin_condition(std::string_view p, bool is_negated) {
  const std::int64_t label = labels_++;
  body_ << "@" << (is_negated ? "" : "!") << p << " bra end_" << label << ";\n";
  line() << "if (" << (is_negated ? "!" : "") << p << ") {\n";
  scopes_.push_back({.label = label});
}

void CudaCode::begin_if(std::string_view p) { begin_condition(p, false); }
void CudaCode::begin_unless(std::string_view p) { begin_condition(p, true); }

void CudaCode::end() {
  body_ << "end_" << scopes_.back().label << ":\n";
  scopes_.pop_back();
  line() << "}\n";
}

void CudaCode::begin_loop(std::string_view p) {
  if (declare(p, CodeType::pred)) line() << "bool " << p << ";\n";
  const std::int64_t label = labels_++;
  body_ << "loop_" << label << ":\n.pragma \"nounroll\";\n";
  line() << "#pragma unroll 1\n";
  line() << "do {\n";
  scopes_.push_back({.label = label, .again = std::string(p)});
}

void CudaCode::end_loop() {
  const Scope scope = scopes_.back();
  body_ << "@" << scope.again << " bra loop_" << scope.label << ";\n";
  scopes_.pop_back();
  line() << "} while (" << scope.again << ");\n";
}

void CudaCode::activate(std::int64_t sum) {
  if (epilogue_.activation == Activation::none) return;
  emit_ptx_activation(body_, epilogue_, sum);
  line() << "c" << sum << " = spjit_activate(c" << sum << ");\n";
}

CudaCode::Texts CudaCode::take() && { return {std::move(ptx_).take(), std::move(cuda_).take()}; }

}  // namespace spjit
