#include "kernels/host/byte_windows/byte_windows_executable.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "kernels/host/byte_windows/byte_windows_memory.hpp"
#include "kernels/host/operands/placement.hpp"
#include "kernels/host/operands/workspace_pool.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_line_bytes = 64;

// Of a thread: less takes no longer than waking it.
constexpr std::int64_t k_least_token_steps = 4000;
constexpr std::int64_t k_least_copied_bytes = std::int64_t{1} << 16;
constexpr std::int64_t k_least_quantized_bytes = std::int64_t{1} << 14;

/// As many tokens as are computed at once.
constexpr std::int64_t k_most_tokens = 64;

/// Values of a run.
struct PreparedBytes final : PreparedValues::Stream {
  PreparedBytes(std::uint64_t kernel, ByteValues values_in)
      : Stream(kernel), values(std::move(values_in)) {}
  ByteValues values;
  IntegerMatrix::Values integers;
};

const PreparedBytes* prepared_of(const Arguments& one) {
  return one.values == nullptr ? nullptr : dynamic_cast<const PreparedBytes*>(one.values->stream());
}

/// No number that sums are of is further from 0.
std::int64_t largest_of_b(const Numerics& numerics) {
  return numerics.quantization == Quantization::token ? 127 : 255;
}

/// Floats between rows of B as integers, as the loop packs them.
std::int64_t integers_of_row(std::int64_t tokens) { return compact_row_floats(tokens); }
/// The same between tokens: an odd number of cache lines, as ByteMatrix::token_bytes().
std::int64_t integers_of_token(std::int64_t cols) {
  constexpr std::int64_t k_line_floats = k_line_bytes / std::int64_t{sizeof(float)};
  return (ceil_div(cols, k_line_floats) | 1) * k_line_floats;
}

/// B, or the image that it is of.
struct StoredB {
  std::int64_t rows;
  std::int64_t columns;
};
StoredB stored_b(const HostProgramHeader& header, const Arguments& one) {
  if (!header.convolution) return {header.cols, one.n};
  return {header.convolution->channels, one.height * one.width};
}

/// Whether sums may become bytes of C while they are in registers.
bool gives_bytes(const HostProgramHeader& header) {
  const Quantization how = header.numerics.quantization;
  const bool has_one_scale = how == Quantization::given || how == Quantization::tensor;
  const Epilogue& epilogue = header.epilogue;
  return is_byte(header.numerics.c) && has_one_scale && !epilogue.residual &&
         epilogue.activation == Activation::none;
}

/// A as masks or windows are made of it.
ByteMatrix matrix_of(const CsrImage& read, std::optional<ByteTaps>& taps, ByteForm form,
                     bool prefers_masks, const Cancellation& cancel) {
  const HostProgramHeader& header = read.header;
  const ByteWishes wishes{.tokens = header.runtime_n ? k_most_tokens : header.n,
                          .rows = gives_bytes(header) ? RowsOfC::near : RowsOfC::any};
  if (prefers_masks && permutes_bytes(form) && MaskedBytes::runs_here()) {
    return ByteMatrix(MaskedBytes(read.view(), wishes.tokens, cancel));
  }
  if (!header.convolution) return {read.view(), form, cancel, wishes};
  taps.emplace(*header.convolution);
  return {taps->in_order(read.view(), cancel).view(), form, cancel, wishes};
}

std::byte* aligned(std::byte* memory) {
  const auto behind = reinterpret_cast<std::uintptr_t>(memory) % k_line_bytes;
  return behind == 0 ? memory : memory + (k_line_bytes - behind);
}

}  // namespace

ByteWindowsExecutable::ByteWindowsExecutable(HostObject object, const CsrImage& read, ByteForm form,
                                             bool prefers_masks, const Cancellation& cancel)
    : object_(std::move(object)),
      header_(read.header),
      threads_(object_.pool),
      matrix_(matrix_of(read, taps_, form, prefers_masks, cancel)),
      parts_(matrix_.split(threads_.count())) {
  const std::int64_t most = header_.runtime_n ? k_most_tokens : std::min(header_.n, k_most_tokens);
  if (permutes_bytes(form) || most < IntegerMatrix::k_least_tokens || taps_) return;
  const CsrView a = read.view();
  integers_.emplace(a,
                    IntegerMatrix::Use{.isa = header_.isa,
                                       .parts = threads_.count(),
                                       .largest_of_b = largest_of_b(header_.numerics),
                                       .tokens = most},
                    cancel);
  const bool may_be_exact = !a.has_values() || integers_->values().are_exact;
  if (!may_be_exact || !is_faster_as_integers(most)) integers_.reset();
}

/// Whether C has sums as they are.
bool ByteWindowsExecutable::has_sums() const noexcept {
  const DataType c = header_.numerics.c;
  const bool is_sum = c == DataType::f32 || (c == DataType::i32 && !matrix_.has_scales());
  return header_.epilogue.empty() && !is_quantized() && is_sum;
}

/// Whether sums are f32, not i32.
bool ByteWindowsExecutable::has_float_sums() const noexcept {
  const DataType c = header_.numerics.c;
  return !header_.epilogue.empty() || is_quantized() || c == DataType::f32 || is_byte(c) ||
         matrix_.has_scales();
}

/// Whether sums become bytes of C before they are stored.
bool ByteWindowsExecutable::stores_bytes(const Arguments& arguments) const noexcept {
  return matrix_.has_blocks() && arguments.c.layout == Layout::tokens_major &&
         (arguments.n > 1 || taps_);
}

/// 1536 x 384 at 80 %, eight tokens: 14.6 us through a workspace, 16.3 element by element.
bool ByteWindowsExecutable::stores_sums(const Arguments& arguments) const noexcept {
  if (stores_bytes(arguments)) return true;
  const bool finishes_in_c =
      is_quantized() && header_.numerics.c == DataType::f32 && !header_.epilogue.residual;
  return (has_sums() || finishes_in_c) &&
         ((arguments.n == 1 && !taps_) || arguments.c.layout == Layout::row_major);
}

ByteWindowsExecutable::Sizes ByteWindowsExecutable::sizes_of(const Arguments& arguments) const {
  constexpr std::int64_t k_fewer_tokens = 8;
  constexpr std::int64_t k_most_bytes = std::int64_t{4} << 20;
  const std::int64_t row_bytes = header_.rows * std::int64_t{sizeof(float)};
  const bool stores = stores_sums(arguments);
  const bool is_large = !stores && row_bytes > k_most_bytes / k_most_tokens;
  Sizes sizes;
  sizes.tokens = std::min(arguments.n, is_large ? k_fewer_tokens : k_most_tokens);
  sizes.b = sizes.tokens * matrix_.token_bytes();
  if (taps_) add_image(arguments, sizes);
  if (is_faster_as_integers(sizes.tokens)) {  // whatever the values
    const std::int64_t floats = arguments.b.layout == Layout::tokens_major
                                    ? sizes.tokens * integers_of_token(header_.cols)
                                    : header_.cols * integers_of_row(sizes.tokens);
    sizes.b = std::max(sizes.b, round_up(floats * std::int64_t{sizeof(float)}, k_line_bytes));
    sizes.packed =
        integers_->parts() * CompactMatrix::k_workspace_floats * std::int64_t{sizeof(float)};
  }
  if (!stores) sizes.sums = round_up(sizes.tokens * row_bytes, k_line_bytes);
  if (header_.epilogue.residual && header_.numerics.c == DataType::i32) {
    sizes.residual = sizes.sums;
  }
  if (stores_bytes(arguments)) {
    constexpr std::int64_t k_operands = 2;  // of ByteFinish
    sizes.lanes =
        round_up(k_operands * matrix_.lanes() * std::int64_t{sizeof(float)}, k_line_bytes);
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
  auto prepared = std::make_shared<PreparedBytes>(
      id(), taps_ ? matrix_.arrange(taps_->in_order(values)) : matrix_.arrange(values));
  if (integers_) prepared->integers = integers_->arrange(values);
  return prepared;
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
  parts.starts = reinterpret_cast<std::uint32_t*>(memory);
  memory += sizes.starts;
  parts.b = reinterpret_cast<std::uint8_t*>(memory);
  parts.packed = reinterpret_cast<float*>(memory + sizes.b);
  parts.sums = memory + sizes.b + sizes.packed;
  parts.residual = reinterpret_cast<float*>(parts.sums + sizes.sums);
  parts.of_tokens = reinterpret_cast<float*>(parts.sums + sizes.sums + sizes.residual);
  parts.of_rows = parts.of_tokens + k_most_quantized_tokens;
  parts.of_lanes =
      reinterpret_cast<float*>(parts.sums + sizes.sums + sizes.residual + sizes.factors);
  parts.of_tensor = scale_of_tensor(arguments);
  if (stores_bytes(arguments)) parts.finish = byte_finish(arguments, parts);
  if (taps_) {
    run_images(arguments, parts);
    return;
  }
  for (std::int64_t item = 0; item < arguments.batch; ++item) {
    Arguments one = item_of(arguments, item);
    if (one.n == 1) one = of_one_token(one);
    const std::int64_t begin = reads_b(one) ? run_first_tokens(one, sizes.tokens, parts) : 0;
    for (std::int64_t first = begin; first < one.n; first += sizes.tokens) {
      run_tokens(one, {first, std::min(sizes.tokens, one.n - first)}, parts);
    }
  }
}

ByteSource ByteWindowsExecutable::bytes_of(const Arguments& one) const noexcept {
  const StoredB stored = stored_b(header_, one);
  return {static_cast<const std::uint8_t*>(one.b.data), *one.b.layout, one.b.ld, stored.rows,
          stored.columns};
}

FloatsOfB ByteWindowsExecutable::floats_of(const Arguments& one) const noexcept {
  const StoredB stored = stored_b(header_, one);
  return {one.b.as<float>(), *one.b.layout, one.b.ld, stored.rows, stored.columns};
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
    if (one.n == 1 && !taps_) one = of_one_token(one);
    const FloatsOfB from = floats_of(one);
    const bool is_short = from.rows * from.n < k_least_copied_bytes;
    threads_.share_rows(from.n, is_short, [&](const RowRange& some) {
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
  const bool has_signed = how == Quantization::token && takes_signed();
  const bool adds_bias = how == Quantization::token && !has_signed;
  BytesOfFloats bytes{how, adds_bias ? k_byte_bias : 0, {}};
  if (how == Quantization::tensor) bytes.of_tensor = memory.of_tensor;
  const FloatsOfB from = floats_of(one);
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
  const ByteSource from = bytes_of(one);
  const ByteTokens to{memory.b, matrix_.token_bytes(), tokens.first, tokens.count};
  const bool is_signed = header_.numerics.b == DataType::i8;
  const bool adds_bias = is_signed && !takes_signed();
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

/// Both costs grow by the same amount for each eight tokens, those of integers from above 0. So if
/// some tokens are faster as integers, more are, and a workspace of many has room for fewer.
bool ByteWindowsExecutable::is_faster_as_integers(std::int64_t tokens) const noexcept {
  const bool is_for_few = !header_.runtime_n && header_.n < IntegerMatrix::k_many_tokens;
  const std::int64_t least =
      is_for_few ? IntegerMatrix::k_least_tokens : IntegerMatrix::k_many_tokens;
  return integers_ && tokens >= least && integers_->cost(tokens) < matrix_.cost(tokens);
}

/// Precondition: there are integers.
const IntegerMatrix::Values& ByteWindowsExecutable::integer_values(
    const Arguments& one) const noexcept {
  const PreparedBytes* const of_run = prepared_of(one);
  return of_run == nullptr ? integers_->values() : of_run->integers;
}

/// Whether sharing them among threads takes longer than one does.
bool ByteWindowsExecutable::has_little_work(const Tokens& tokens) const noexcept {
  return matrix_.steps() * tokens.count < k_least_token_steps * threads_.count();
}

/// Whether so many tokens are multiplied as integers.
bool ByteWindowsExecutable::multiplies_integers(const Arguments& one,
                                                std::int64_t tokens) const noexcept {
  return is_faster_as_integers(tokens) && integer_values(one).are_exact;
}

/// B as floats that are integers.
IntegerTokens ByteWindowsExecutable::make_integers(const Arguments& one, const Tokens& tokens,
                                                   const Memory& memory) const {
  const Quantization how = header_.numerics.quantization;
  const bool has_tokens = one.b.layout == Layout::tokens_major;
  const std::int64_t ld =
      has_tokens ? integers_of_token(header_.cols) : integers_of_row(tokens.count);
  const IntegerTokens to{reinterpret_cast<float*>(memory.b), ld, tokens.first, tokens.count};
  const std::int64_t lines = has_tokens ? tokens.count : header_.cols;
  const bool is_short = header_.cols * tokens.count < k_least_quantized_bytes;
  if (!quantizes_floats(header_.numerics)) {
    const bool is_signed = header_.numerics.b == DataType::i8;
    threads_.share_rows(lines, is_short, [&](const RowRange& some) {
      widen_tokens(bytes_of(one), is_signed, memory.of_tensor.zero_point, some, to);
    });
    return to;
  }
  const std::span<float> scales(memory.of_tokens, to_size(tokens.count));
  std::ranges::fill(scales, memory.of_tensor.scale);
  if (how == Quantization::token) find_scales(floats_of(one), tokens.first, scales, header_.isa);
  const TokenScales all{bounds_of(memory.of_tensor, how), scales};
  threads_.share_rows(lines, is_short, [&](const RowRange& some) {
    round_tokens(floats_of(one), all, some, to, header_.isa);
  });
  return to;
}

void ByteWindowsExecutable::multiply_integers(const Arguments& one, const Tokens& tokens,
                                              const Memory& memory) const {
  const IntegerTokens b = make_integers(one, tokens, memory);
  const Sums sums = sums_of(one, tokens, memory);
  const Product product{.b = b.data,
                        .ldb = b.ld,
                        .c = sums.data,
                        .ldc = sums.ld,
                        .n = tokens.count,
                        .has_tokens = one.b.layout == Layout::tokens_major};
  const IntegerMatrix::Values& values = integer_values(one);
  threads_.run_tasks(integers_->parts(), has_little_work(tokens), [&](std::int64_t part) {
    integers_->run(part, product, !has_float_sums(), values,
                   memory.packed + part * CompactMatrix::k_workspace_floats);
  });
}

void ByteWindowsExecutable::run_tokens(const Arguments& one, const Tokens& tokens,
                                       const Memory& memory) const {
  if (multiplies_integers(one, tokens.count)) {
    multiply_integers(one, tokens, memory);
  } else {
    multiply_bytes(one, tokens, memory);
  }
  finish_tokens(one, tokens, memory);
}

void ByteWindowsExecutable::finish_tokens(const Arguments& one, const Tokens& tokens,
                                          const Memory& memory) const {
  if (is_done(one)) return;
  threads_.share_rows(header_.rows, has_little_work(tokens),
                      [&](const RowRange& rows) { finish_rows(one, tokens, memory, rows); });
}

/// Whether windows are fetched from B as it is.
bool ByteWindowsExecutable::reads_b(const Arguments& one) const noexcept {
  return header_.numerics.b == DataType::u8 && one.b.layout == Layout::tokens_major && !integers_ &&
         matrix_.slots() == ByteSlots::apart && !matrix_.has_scales();
}

/// All tokens but the last ones, behind which a window would read past B. Returns how many.
std::int64_t ByteWindowsExecutable::run_first_tokens(const Arguments& one, std::int64_t most,
                                                     const Memory& memory) const {
  constexpr std::int64_t k_together = 8;  // tokens that are computed at once
  const std::int64_t in_a_window = ceil_div(matrix_.shape().window - 1, one.b.ld);
  const std::int64_t count =
      std::max<std::int64_t>(one.n - in_a_window, 0) / k_together * k_together;
  if (stores_bytes(one)) most = count;
  for (std::int64_t first = 0; first < count; first += most) {
    const Tokens tokens{first, std::min(most, count - first)};
    const ByteRows rows{matrix_.starts().data(), 0, tokens.count, one.b.ld, 0};
    const auto* const b = static_cast<const std::uint8_t*>(one.b.data) + first * one.b.ld;
    multiply_rows(one, {.b = b, .rows = &rows, .n = tokens.count}, tokens, memory);
    finish_tokens(one, tokens, memory);
  }
  return count;
}

void ByteWindowsExecutable::multiply_bytes(const Arguments& one, const Tokens& tokens,
                                           const Memory& memory) const {
  ByteOperands operands{.b = memory.b, .n = tokens.count};
  if (quantizes_floats(header_.numerics)) {
    quantize(one, tokens, memory, operands);
  } else {
    copy(one, tokens, memory, operands);
  }
  set_target(one, tokens, memory, operands);
  const ByteValues& values = byte_values(one);
  threads_.run_parts(parts_, has_little_work(tokens),
                     [&](const RowRange& groups) { matrix_.run(groups, operands, values); });
}

/// Where sums go.
void ByteWindowsExecutable::set_target(const Arguments& one, const Tokens& tokens,
                                       const Memory& memory, ByteOperands& operands) const {
  constexpr std::int64_t k_bytes = sizeof(std::int32_t);
  operands.has_floats = has_float_sums();
  if (stores_bytes(one)) {
    operands.c = static_cast<std::byte*>(one.c.data) + tokens.first * one.c.ld;
    operands.row_bytes = 1;
    operands.token_bytes = one.c.ld;
    operands.finish = &memory.finish;
  } else if (stores_sums(one)) {
    const Placement c{*one.c.layout, one.c.ld, {}};
    operands.c = static_cast<std::byte*>(one.c.data) + c.offset(0, tokens.first) * k_bytes;
    operands.row_bytes = c.offset(1, 0) * k_bytes;
    operands.token_bytes = c.offset(0, 1) * k_bytes;
  } else {
    operands.c = memory.sums;
    operands.row_bytes = tokens.count * k_bytes;
    operands.token_bytes = k_bytes;
  }
}

const ByteValues& ByteWindowsExecutable::byte_values(const Arguments& one) const noexcept {
  const PreparedBytes* const of_run = prepared_of(one);
  return of_run == nullptr ? matrix_.values() : of_run->values;
}

}  // namespace spjit
