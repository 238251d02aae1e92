#include "kernels/host/byte_windows/byte_windows_executable.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "kernels/host/byte_windows/float_tokens.hpp"
#include "kernels/host/layer/host_layer.hpp"
#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/placement.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "plan/elements.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_line_bytes = 64;

// Of a thread: less takes no longer than waking it.
constexpr std::int64_t k_least_token_steps = 4000;
constexpr std::int64_t k_least_copied_bytes = std::int64_t{1} << 16;
constexpr std::int64_t k_least_quantized_bytes = std::int64_t{1} << 14;

/// Values of a run.
struct PreparedBytes final : PreparedValues::Stream {
  PreparedBytes(std::uint64_t kernel, ByteValues values_in)
      : Stream(kernel), values(std::move(values_in)) {}
  ByteValues values;
};

std::byte* aligned(std::byte* memory) {
  const auto behind = reinterpret_cast<std::uintptr_t>(memory) % k_line_bytes;
  return behind == 0 ? memory : memory + (k_line_bytes - behind);
}

}  // namespace

/// Bytes that a run borrows, each a multiple of a cache line.
struct ByteWindowsExecutable::Sizes {
  std::int64_t tokens = 0;    ///< that are computed at once
  std::int64_t b = 0;         ///< bytes of these
  std::int64_t sums = 0;      ///< of what is no C yet
  std::int64_t residual = 0;  ///< of what is f32 only here
  std::int64_t factors = 0;   ///< of rows and of tokens, where B is quantised

  [[nodiscard]] std::int64_t all() const {
    const char* const what = "bytes of a workspace";
    return checked_add(checked_add(b, factors, what), checked_add(sums, residual, what), what);
  }
};

struct ByteWindowsExecutable::Memory {
  std::uint8_t* b;
  std::byte* sums;   ///< [m x tokens] of i32 or, for an epilogue, f32
  float* residual;   ///< [m x tokens]
  float* of_tokens;  ///< [k_most_quantized_tokens] scales of Quantization::token
  float* of_rows;    ///< [m] products of scales
  ByteScale of_tensor;
};

/// Sums as f32, where they are.
struct ByteWindowsExecutable::Sums {
  float* data;
  std::int64_t ld;  ///< floats between rows
};

/// Columns of B and C that are computed at once.
struct ByteWindowsExecutable::Tokens {
  std::int64_t first;
  std::int64_t count;
};

ByteWindowsExecutable::ByteWindowsExecutable(HostObject object, const CsrImage& read, ByteForm form,
                                             const Cancellation& cancel)
    : object_(std::move(object)),
      header_(read.header),
      threads_(object_.pool),
      matrix_(read.view(), form, cancel),
      parts_(matrix_.split(threads_.count())) {}

/// Whether C has sums as they are.
bool ByteWindowsExecutable::has_sums() const noexcept {
  const DataType c = header_.numerics.c;
  return header_.epilogue.empty() && !is_quantized() && (c == DataType::i32 || c == DataType::f32);
}

/// 1536 x 384 at 80 %, eight tokens: 14.6 us through a workspace, 16.3 element by element.
bool ByteWindowsExecutable::stores_sums(const Arguments& arguments) const noexcept {
  const bool finishes_in_c =
      is_quantized() && header_.numerics.c == DataType::f32 && !header_.epilogue.residual;
  return (has_sums() || finishes_in_c) &&
         (arguments.n == 1 || arguments.c.layout == Layout::row_major);
}

ByteWindowsExecutable::Sizes ByteWindowsExecutable::sizes_of(const Arguments& arguments) const {
  constexpr std::int64_t k_most_tokens = 64;
  constexpr std::int64_t k_fewer_tokens = 8;
  constexpr std::int64_t k_most_bytes = std::int64_t{4} << 20;
  const std::int64_t row_bytes = header_.rows * std::int64_t{sizeof(float)};
  const bool stores = stores_sums(arguments);
  const bool is_large = !stores && row_bytes > k_most_bytes / k_most_tokens;
  Sizes sizes;
  sizes.tokens = std::min(arguments.n, is_large ? k_fewer_tokens : k_most_tokens);
  sizes.b = sizes.tokens * matrix_.token_bytes();
  if (!stores) sizes.sums = round_up(sizes.tokens * row_bytes, k_line_bytes);
  if (header_.epilogue.residual && header_.numerics.c != DataType::f32) {
    sizes.residual = sizes.sums;
  }
  if (is_quantized()) {
    sizes.factors =
        round_up(k_most_quantized_tokens * std::int64_t{sizeof(float)} + row_bytes, k_line_bytes);
  }
  return sizes;
}

std::int64_t ByteWindowsExecutable::workspace_bytes(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return 0;
  return sizes_of(arguments).all() + k_line_bytes - 1;
}

std::shared_ptr<const PreparedValues::Stream> ByteWindowsExecutable::prepare_values(
    std::span<const float> values) const {
  return std::make_shared<PreparedBytes>(id(), matrix_.arrange(values));
}

void ByteWindowsExecutable::run(const Arguments& arguments) const {
  if (arguments.n == 0 || arguments.batch == 0) return;
  const Sizes sizes = sizes_of(arguments);
  if (arguments.workspace != nullptr) {
    check_workspace(arguments.workspace_bytes, workspace_bytes(arguments));
    run_in(aligned(static_cast<std::byte*>(arguments.workspace)), sizes, arguments);
    return;
  }
  const std::int64_t floats = ceil_div(sizes.all(), sizeof(float));
  const WorkspacePool::Loan loan(threads_.workspaces(), {floats, floats});
  run_in(reinterpret_cast<std::byte*>(loan.data()), sizes, arguments);
}

void ByteWindowsExecutable::run_in(std::byte* memory, const Sizes& sizes,
                                   const Arguments& arguments) const {
  Memory parts{};
  parts.b = reinterpret_cast<std::uint8_t*>(memory);
  parts.sums = memory + sizes.b;
  parts.residual = reinterpret_cast<float*>(parts.sums + sizes.sums);
  parts.of_tokens = reinterpret_cast<float*>(parts.sums + sizes.sums + sizes.residual);
  parts.of_rows = parts.of_tokens + k_most_quantized_tokens;
  parts.of_tensor = scale_of_tensor(arguments);
  for (std::int64_t item = 0; item < arguments.batch; ++item) {
    Arguments one = item_of(arguments, item);
    if (one.n == 1) one = of_one_token(one);
    for (std::int64_t first = 0; first < one.n; first += sizes.tokens) {
      run_tokens(one, {first, std::min(sizes.tokens, one.n - first)}, parts);
    }
  }
}

/// Where B is quantised, but by itself token after token.
ByteScale ByteWindowsExecutable::scale_of_tensor(const Arguments& arguments) const {
  const Quantization how = header_.numerics.quantization;
  if (how == Quantization::given) return {*arguments.b_scale, arguments.b_zero_point};
  if (how != Quantization::tensor) return {};
  SeenFloats all;
  std::mutex mutex;
  for (std::int64_t item = 0; item < arguments.batch; ++item) {
    Arguments one = item_of(arguments, item);
    if (one.n == 1) one = of_one_token(one);
    const FloatsOfB from{one.b.as<float>(), *one.b.layout, one.b.ld, header_.cols, one.n};
    const bool is_short = header_.cols * one.n < k_least_copied_bytes;
    threads_.share_rows(one.n, is_short, [&](const RowRange& some) {
      const SeenFloats seen = look_at_tokens(from, some.begin, some.end - some.begin, header_.isa);
      const std::lock_guard lock(mutex);
      all.add(seen);
    });
  }
  return scale_of(all.range(), how);
}

/// Floats as bytes, each with its zero point.
void ByteWindowsExecutable::quantize(const Arguments& one, const Tokens& tokens,
                                     const Memory& memory, ByteOperands& to) const {
  const Quantization how = header_.numerics.quantization;
  const bool has_signed = how == Quantization::token && matrix_.form() == ByteForm::avx2;
  const bool adds_bias = how == Quantization::token && !has_signed;
  BytesOfFloats bytes{how, adds_bias ? k_byte_bias : 0, {}};
  if (how == Quantization::tensor) bytes.of_tensor = memory.of_tensor;
  const FloatsOfB from{one.b.as<float>(), *one.b.layout, one.b.ld, header_.cols, one.n};
  const std::int64_t together = from.has_tokens() ? 1 : 16;
  const bool is_short = header_.cols * tokens.count < k_least_quantized_bytes;
  const std::int64_t most = is_short ? 1 : threads_.count();
  const std::int64_t parts = std::min(most, ceil_div(tokens.count, together));
  threads_.run_tasks(parts, is_short, [&](std::int64_t part) {
    const std::int64_t begin = tokens.count * part / parts;
    const std::int64_t end = tokens.count * (part + 1) / parts;
    const std::int64_t stride = matrix_.token_bytes();
    quantize_tokens(from, bytes, memory.of_tokens + begin,
                    {memory.b + begin * stride, stride, tokens.first + begin, end - begin},
                    header_.isa);
  });
  to.kind = has_signed ? ByteKind::is_signed : ByteKind::is_unsigned;
  to.zero_point = bytes.of_tensor.zero_point + bytes.added;
}

void ByteWindowsExecutable::copy(const Arguments& one, const Tokens& tokens, const Memory& memory,
                                 ByteOperands& operands) const {
  const ByteSource from{static_cast<const std::uint8_t*>(one.b.data), *one.b.layout, one.b.ld,
                        header_.cols, one.n};
  const ByteTokens to{memory.b, matrix_.token_bytes(), tokens.first, tokens.count};
  const bool is_signed = header_.numerics.b == DataType::i8;
  const bool adds_bias = is_signed && matrix_.form() == ByteForm::vnni;
  const bool is_short = header_.cols * tokens.count < k_least_copied_bytes;
  std::atomic<bool> has_least = false;
  threads_.share_rows(header_.cols, is_short, [&](const RowRange& rows) {
    const bool found = copy_tokens(from, rows, adds_bias ? k_byte_bias : 0, to);
    if (found) has_least.store(true, std::memory_order_relaxed);
  });
  const bool biases = is_signed && !adds_bias && has_least;
  if (biases) bias_tokens(to, header_.cols);
  const bool is_biased = adds_bias || biases;
  operands.kind = is_signed && !is_biased ? ByteKind::is_signed : ByteKind::is_unsigned;
  operands.zero_point = memory.of_tensor.zero_point + (is_biased ? k_byte_bias : 0);
}

void ByteWindowsExecutable::run_tokens(const Arguments& one, const Tokens& tokens,
                                       const Memory& memory) const {
  ByteOperands operands{.b = memory.b, .n = tokens.count};
  if (quantizes_floats(header_.numerics)) {
    quantize(one, tokens, memory, operands);
  } else {
    copy(one, tokens, memory, operands);
  }
  constexpr std::int64_t k_bytes = sizeof(std::int32_t);
  operands.has_floats =
      !header_.epilogue.empty() || is_quantized() || header_.numerics.c == DataType::f32;
  if (stores_sums(one)) {
    const Placement c{*one.c.layout, one.c.ld, {}};
    operands.c = static_cast<std::byte*>(one.c.data) + c.offset(0, tokens.first) * k_bytes;
    operands.row_bytes = c.offset(1, 0) * k_bytes;
    operands.token_bytes = c.offset(0, 1) * k_bytes;
  } else {
    operands.c = memory.sums;
    operands.row_bytes = tokens.count * k_bytes;
    operands.token_bytes = k_bytes;
  }
  const auto* of_run =
      one.values == nullptr ? nullptr : dynamic_cast<const PreparedBytes*>(one.values->stream());
  const ByteValues& values = of_run == nullptr ? matrix_.values() : of_run->values;
  const bool is_short = matrix_.steps() * tokens.count < k_least_token_steps * threads_.count();
  threads_.run_parts(parts_, is_short,
                     [&](const RowRange& groups) { matrix_.run(groups, operands, values); });
  if (stores_sums(one) && !is_quantized()) return;
  threads_.share_rows(header_.rows, is_short,
                      [&](const RowRange& rows) { finish_rows(one, tokens, memory, rows); });
}

void ByteWindowsExecutable::finish_rows(const Arguments& one, const Tokens& tokens,
                                        const Memory& memory, const RowRange& rows) const {
  if (has_sums()) return transpose_sums(one, tokens, memory, rows);
  const DataType type = header_.numerics.c;
  const bool has_floats = !header_.epilogue.empty() || is_quantized();
  if (has_floats) finish_floats(one, tokens, memory, rows);
  if (has_floats && type == DataType::f32) return;
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
  return {one.c.as<float>() + tokens.first, one.c.ld};
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

/// The epilogue: to C if that is f32, else in place.
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
  if (type == DataType::f32) {
    task.to = {one.c.as<float>() + c.offset(rows.begin, tokens.first), c.row_distance()};
    task.has_tokens = c.layout == Layout::tokens_major;
    if (one.residual.data != nullptr) {
      task.residual = {one.residual.as<float>() + residual.offset(rows.begin, tokens.first),
                       residual.row_distance()};
    }
  } else if (one.residual.data != nullptr) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t j = 0; j < tokens.count; ++j) {
        memory.residual[row * tokens.count + j] = static_cast<float>(
            load_element(type, one.residual.data, residual.offset(row, tokens.first + j)));
      }
    }
    task.residual = {memory.residual + first, tokens.count};
  }
  finish(task, header_.isa);
}

}  // namespace spjit
