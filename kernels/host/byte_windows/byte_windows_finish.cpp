// Sums become C.

#include <cstdint>

#include "kernels/host/byte_windows/byte_windows_executable.hpp"
#include "kernels/host/byte_windows/byte_windows_memory.hpp"
#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/placement.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "kernels/host/operands/typed_rows.hpp"
#include "plan/elements.hpp"

namespace spjit {

/// Precondition: stores_bytes().
ByteFinish ByteWindowsExecutable::byte_finish(const Arguments& arguments,
                                              const Memory& memory) const {
  fill_factors(arguments.scale, memory.of_tensor.scale, header_.rows, memory.of_rows);
  ByteFinish finish{.unit = scale_of_c(arguments)};
  finish.bounds = bounds_of(finish.unit, header_.numerics.c);
  const std::int64_t lanes = matrix_.lanes();
  matrix_.in_lanes(memory.of_rows, memory.of_lanes);
  finish.scale = memory.of_lanes;
  if (arguments.bias == nullptr) return finish;
  matrix_.in_lanes(arguments.bias, memory.of_lanes + lanes);
  (header_.epilogue.bias_first ? finish.summand : finish.bias) = memory.of_lanes + lanes;
  return finish;
}

void ByteWindowsExecutable::finish_rows(const Arguments& one, const Tokens& tokens,
                                        const Memory& memory, const RowRange& rows) const {
  if (has_sums()) return transpose_sums(one, tokens, memory, rows);
  const DataType type = header_.numerics.c;
  const bool has_floats = has_float_sums();
  if (has_floats) finish_floats(one, tokens, memory, rows);
  if (has_floats && type != DataType::i32) return;
  const Placement c{*one.c.layout, one.c.ld, {}};
  const DataType of_sums = has_floats ? DataType::f32 : DataType::i32;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t j = 0; j < tokens.count; ++j) {
      const double sum = load_element(of_sums, memory.sums, row * tokens.count + j);
      store_element(type, one.c.data, c.offset(row, tokens.first + j), sum);
    }
  }
}

/// To tokens of C, whose elements have four bytes.
void ByteWindowsExecutable::transpose_sums(const Arguments& one, const Tokens& tokens,
                                           const Memory& memory, const RowRange& rows) const {
  const auto* const sums = reinterpret_cast<const float*>(memory.sums);
  auto* const c = static_cast<float*>(one.c.data);
  transpose(OutOfPanels{.from = {sums + rows.begin * tokens.count, tokens.count, tokens.count, 0},
                        .rows = rows.end - rows.begin,
                        .columns = tokens.count,
                        .to = {c + tokens.first * one.c.ld + rows.begin, one.c.ld}},
            header_.isa);
}

ByteWindowsExecutable::Sums ByteWindowsExecutable::sums_of(const Arguments& one,
                                                           const Tokens& tokens,
                                                           const Memory& memory) const {
  if (!stores_sums(one)) return {reinterpret_cast<float*>(memory.sums), tokens.count};
  // Sums of integers have four bytes, too.
  return {static_cast<float*>(one.c.data) + tokens.first, one.c.ld};
}

/// The factors of rows that are left to the epilogue. Those of several tokens that have a scale
/// each are multiplied with here.
const float* ByteWindowsExecutable::scale_of_rows(const Arguments& one, const Sums& sums,
                                                  const Tokens& tokens, const Memory& memory,
                                                  const RowRange& rows) const {
  const float* const given = one.scale == nullptr ? nullptr : one.scale + rows.begin;
  if (!is_quantized()) return given;
  const std::int64_t count = rows.end - rows.begin;
  const bool has_tokens = header_.numerics.quantization == Quantization::token;
  if (has_tokens && tokens.count > 1) {
    scale_sums({.sums = sums.data + rows.begin * sums.ld,
                .ld = sums.ld,
                .rows = count,
                .tokens = tokens.count,
                .of_rows = given,
                .of_tokens = memory.of_tokens});
    return nullptr;
  }
  float* const factors = memory.of_rows + rows.begin;
  fill_factors(given, has_tokens ? memory.of_tokens[0] : memory.of_tensor.scale, count, factors);
  return factors;
}

/// The epilogue: to C, of i32 in place.
void ByteWindowsExecutable::finish_floats(const Arguments& one, const Tokens& tokens,
                                          const Memory& memory, const RowRange& rows) const {
  const DataType type = header_.numerics.c;
  const Placement c{*one.c.layout, one.c.ld, {}};
  const Placement residual{c.layout, one.residual.ld, {}};
  const auto of_rows = [&](const float* operand) {
    return operand == nullptr ? nullptr : operand + rows.begin;
  };
  const std::int64_t first = rows.begin * tokens.count;
  const Sums all = sums_of(one, tokens, memory);
  float* const sums = all.data + rows.begin * all.ld;
  Finish task{.epilogue = &header_.epilogue,
              .from = {sums, all.ld},
              .rows = rows.end - rows.begin,
              .columns = tokens.count,
              .to = {sums, all.ld},
              .scale = scale_of_rows(one, all, tokens, memory, rows),
              .bias = of_rows(one.bias)};
  if (type == DataType::i32) {
    if (one.residual.data != nullptr) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t j = 0; j < tokens.count; ++j) {
          memory.residual[row * tokens.count + j] = static_cast<float>(
              load_element(type, one.residual.data, residual.offset(row, tokens.first + j)));
        }
      }
      task.residual = {memory.residual + first, tokens.count};
    }
    finish(task, header_.isa);
    return;
  }
  task.has_tokens = c.layout == Layout::tokens_major;
  if (is_narrow(type)) {
    const ByteScale scale = scale_of_c(one);
    RoundedFinish rounded{task, narrow_rows(one.c, c, scale, rows.begin, tokens.first)};
    if (one.residual.data != nullptr) {
      rounded.residual = narrow_rows(one.residual, residual, scale, rows.begin, tokens.first);
    }
    finish(rounded, header_.isa);
    return;
  }
  task.to = {one.c.as<float>() + c.offset(rows.begin, tokens.first), c.row_distance()};
  if (one.residual.data != nullptr) {
    task.residual = {one.residual.as<float>() + residual.offset(rows.begin, tokens.first),
                     residual.row_distance()};
  }
  finish(task, header_.isa);
}

}  // namespace spjit
