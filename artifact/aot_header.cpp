#include "artifact/aot_header.hpp"

#include <fmt/format.h>

#include <string_view>

#include "kernels/kernel_operation.hpp"
#include "plan/formula.hpp"
#include "plan/quantization.hpp"

namespace spjit {
namespace {

/// B or C, or the image that B is patches of.
struct DenseText {
  Layout layout;
  std::int64_t features;
  std::int64_t columns;
  std::string columns_text;  ///< "512", "n"
  std::int64_t ld;
};

/// "tokens [n x 256]", "features [256 x 512], rows 520 elements apart".
std::string dense_text(const DenseText& dense, const KernelInfo& info) {
  if (dense.layout == Layout::panel_major) {
    return fmt::format("panels of {} columns, {} features x {}", info.panel_columns, dense.features,
                       dense.columns_text);
  }
  const bool has_tokens = dense.layout == Layout::tokens_major;
  std::string shape = has_tokens
                          ? fmt::format("tokens [{} x {}]", dense.columns_text, dense.features)
                          : fmt::format("features [{} x {}]", dense.features, dense.columns_text);
  if (dense.ld == (has_tokens ? dense.features : dense.columns)) return shape;
  return fmt::format("{}, {} {} elements apart", shape, has_tokens ? "tokens" : "rows", dense.ld);
}

std::string columns_text(const KernelInfo& info, std::int64_t columns, const char* at_run_time) {
  return info.runtime_n ? at_run_time : fmt::format("{}", columns);
}

std::string text_of_b(const KernelInfo& info) {
  const OperationRules& rules = rules_of(info);
  const StoredSize b = rules.stored_b(sizes_of(info));
  const char* const at_run_time = rules.has_images() ? "height * width" : "n";
  const std::string text = dense_text(
      {info.b_layout, b.rows, b.columns, columns_text(info, b.columns, at_run_time), info.ldb},
      info);
  return rules.has_images() ? "an image, " + text : text;
}

std::string text_of_c(const KernelInfo& info) {
  const char* const at_run_time = rules_of(info).has_images() ? "pixels of the output" : "n";
  return dense_text(
      {info.c_layout, info.rows, info.n, columns_text(info, info.n, at_run_time), info.ldc}, info);
}

/// What the function that runs the kernel takes beside it, and what it hands on.
struct Parameters {
  std::string declared;
  std::string given;

  void add(std::string_view type, std::string_view name, std::string_view value) {
    declared += fmt::format(", {}{}", type, name);
    given += fmt::format(", .{} = {}", name, value);
  }
};

/// How a header declares a pointer, and the operand that it hands on: C++ has no type for some
/// elements.
struct Pointer {
  std::string type;
  std::string value;
};

Pointer pointer_of(const std::string& name, DataType type, bool is_const) {
  if (type == DataType::f32) return {is_const ? "const float* " : "float* ", name};
  return {is_const ? "const void* " : "void* ",
          fmt::format("{{{}, spjit::DataType::{}}}", name, to_string(type))};
}

Parameters parameters_of(const KernelInfo& info) {
  const Pointer b = pointer_of("b", info.numerics.b, true);
  const Pointer c = pointer_of("c", info.numerics.c, false);
  const Pointer residual = pointer_of("residual", info.numerics.c, true);
  Parameters parameters{.declared = fmt::format("{}b, {}c", b.type, c.type),
                        .given = fmt::format(".b = {}, .c = {}", b.value, c.value)};
  if (info.runtime_n && rules_of(info).has_images()) {
    parameters.add("std::int64_t ", "height", "height");
    parameters.add("std::int64_t ", "width", "width");
  } else if (info.runtime_n) {
    parameters.add("std::int64_t ", "n", "n");
  }
  if (info.epilogue.scale) parameters.add("const float* ", "scale", "scale");
  if (info.epilogue.bias) parameters.add("const float* ", "bias", "bias");
  if (info.epilogue.residual) parameters.add(residual.type, "residual", residual.value);
  if (info.numerics.quantization == Quantization::given) {
    parameters.add("const float* ", "b_scale", "b_scale");
    parameters.add("std::int32_t ", "b_zero_point", "b_zero_point");
  }
  if (is_byte(info.numerics.c)) {
    parameters.add("const float* ", "c_scale", "c_scale");
    parameters.add("std::int32_t ", "c_zero_point", "c_zero_point");
  }
  if (info.runtime_values) parameters.add("const spjit::PreparedValues& ", "values", "&values");
  return parameters;
}

/// Lines about each operand.
std::string operand_lines(const KernelInfo& info) {
  const Epilogue& epilogue = info.epilogue;
  std::string lines = fmt::format(
      "/// b: {}\n"
      "/// c: {}\n",
      text_of_b(info), text_of_c(info));
  const auto add_row_operand = [&](bool has, const char* name) {
    if (has) lines += fmt::format("/// {}: [{}], a number for each row of A\n", name, info.rows);
  };
  add_row_operand(epilogue.scale, "scale");
  add_row_operand(epilogue.bias, "bias");
  if (epilogue.residual) lines += "/// residual: as c\n";
  if (info.numerics.quantization == Quantization::given) {
    lines += "/// b stands for b_scale[0] * (b - b_zero_point)\n";
  }
  if (is_byte(info.numerics.c)) {
    lines += "/// c stands for c_scale[0] * (c - c_zero_point)\n";
  }
  if (!info.numerics.is_default()) {
    lines += fmt::format("/// types of A, B and C, and their sums: {}\n", to_string(info.numerics));
  }
  if (info.runtime_values) lines += "/// values: what kernel.prepare_values() made of A's\n";
  return lines;
}

}  // namespace

std::string aot_header_of(const KernelInfo& info, const HostImage& image, const std::string& name) {
  const Parameters parameters = parameters_of(info);
  const std::string details = rules_of(info).details(sizes_of(info));
  const std::string patches = details.empty() ? "" : "; B: patches of " + details;
  const std::string n =
      info.runtime_n ? fmt::format("any n, chosen for {}", info.n) : fmt::format("n = {}", info.n);
  return fmt::format(
      R"(#pragma once

// C = {formula} with A [{rows} x {cols}], {nnz} nonzeros; {n}{image}; {target}; made by spjit.
// Link {name}.o and libspjit.

#include <spjit/kernel.hpp>

extern "C" {{
extern const unsigned char spjit_{name}_text[];
extern const unsigned char spjit_{name}_weights[];
extern const unsigned char spjit_{name}_program[{program}];
}}

/// The kernel; see spjit::Kernel.
[[nodiscard]] inline spjit::Kernel {name}(int threads = 1) {{
  return spjit::Kernel::link({{spjit_{name}_text, {text}, spjit_{name}_weights, {weights},
                                  spjit_{name}_program, {program}}},
                                 threads);
}}

/// Runs the kernel: C = {formula}. Throws as spjit::Kernel::run(), which takes more.
{operands}inline void {name}(const spjit::Kernel& kernel, {declared}) {{
  kernel.run({{{given}}});
}}
)",
      fmt::arg("formula", formula_of(info.epilogue)), fmt::arg("rows", info.rows),
      fmt::arg("cols", info.cols), fmt::arg("nnz", info.nnz), fmt::arg("n", n),
      fmt::arg("image", patches), fmt::arg("target", info.target.name()), fmt::arg("name", name),
      fmt::arg("program", image.program.size()), fmt::arg("text", image.text.size()),
      fmt::arg("weights", image.weights.size()), fmt::arg("operands", operand_lines(info)),
      fmt::arg("declared", parameters.declared), fmt::arg("given", parameters.given));
}

}  // namespace spjit
