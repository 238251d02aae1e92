// Convolutions: tiles of the output, and the parts of the image that these are of.

#include <algorithm>
#include <cstring>

#include "kernels/batch_item.hpp"
#include "kernels/host/byte_windows/byte_windows_executable.hpp"
#include "kernels/host/byte_windows/byte_windows_memory.hpp"

namespace spjit {
namespace {

// Of a thread: less takes no longer than waking it.
constexpr std::int64_t k_least_steps = 4000;
constexpr std::int64_t k_least_staged_bytes = std::int64_t{1} << 15;
/// From so many tokens of a thread on, threads share those. Of fewer they share rows of A.
constexpr std::int64_t k_least_tokens = 16;

}  // namespace

ByteImage ByteWindowsExecutable::image_of(const Arguments& arguments) const {
  constexpr std::int64_t k_most_bytes = std::int64_t{512} << 10;  // of C, in L2
  constexpr std::int64_t k_least_pixels = 64;
  Convolution convolution = *header_.convolution;
  convolution.height = arguments.height;
  convolution.width = arguments.width;
  const std::int64_t row_bytes =
      std::max<std::int64_t>(header_.rows, 1) * std::int64_t{sizeof(float)};
  const std::int64_t most = stores_bytes(arguments) ? k_most_bytes : k_most_bytes / row_bytes;
  return {convolution, std::max(most, k_least_pixels)};
}

void ByteWindowsExecutable::add_image(const Arguments& arguments, Sizes& sizes) const {
  constexpr std::int64_t k_line_bytes = 64;
  const ByteImage image = image_of(arguments);
  sizes.tokens = image.pixels();
  sizes.b = image.bytes();
  sizes.starts = round_up(matrix_.steps() * std::int64_t{sizeof(std::uint32_t)}, k_line_bytes);
}

void ByteWindowsExecutable::run_images(const Arguments& arguments, const Memory& memory) const {
  const ByteImage image = image_of(arguments);
  taps_->place(matrix_.starts(), image.row_bytes(), memory.starts);
  for (std::int64_t item = 0; item < arguments.batch; ++item) {
    run_image(item_of(arguments, item), image, memory);
  }
}

void ByteWindowsExecutable::run_image(const Arguments& one, const ByteImage& image,
                                      const Memory& memory) const {
  for (std::int64_t pixel = 0; pixel < one.n;) {
    const Tokens tokens{pixel, image.tile_at(pixel).pixels()};
    multiply_tile(one, image, tokens, memory);
    pixel += tokens.count;
    finish_tokens(one, tokens, memory);
  }
}

/// Bytes are unsigned: those of i8 have k_byte_bias added.
void ByteWindowsExecutable::stage_row(const Arguments& one, const ByteImage::Row& row,
                                      const Memory& memory, std::uint8_t* to) const {
  const std::int64_t pixel = pixel_bytes(*header_.convolution);
  const std::uint8_t flipped = header_.numerics.b == DataType::i8 ? k_byte_bias : 0;
  const int outside = memory.of_tensor.zero_point + flipped;
  std::memset(to, outside, to_size(row.before * pixel));
  to += row.before * pixel;
  if (quantizes_floats(header_.numerics)) {
    const BytesOfFloats bytes{header_.numerics.quantization, 0, memory.of_tensor};
    for (std::int64_t i = 0; i < row.count; i += k_most_quantized_tokens) {
      quantize_tokens(
          floats_of(one), bytes, nullptr,
          {to + i * pixel, pixel, row.first + i, std::min(k_most_quantized_tokens, row.count - i)},
          header_.isa);
    }
  } else if (row.count > 0) {
    static_cast<void>(copy_tokens(bytes_of(one), {0, header_.convolution->channels}, flipped,
                                  {to, pixel, row.first, row.count}));
  }
  std::memset(to + row.count * pixel, outside, to_size(row.behind * pixel));
}

void ByteWindowsExecutable::multiply_tile(const Arguments& one, const ByteImage& image,
                                          const Tokens& tokens, const Memory& memory) const {
  const ByteTile tile = image.tile_at(tokens.first);
  const std::int64_t staged = image.staged_rows(tile);
  threads_.share_rows(
      staged, staged * image.row_bytes() < k_least_staged_bytes, [&](const RowRange& rows) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          stage_row(one, image.row_of(tile, row), memory, memory.b + row * image.row_bytes());
        }
      });

  const ByteRows rows{memory.starts, 0, tile.columns, image.distance(), image.row_distance()};
  multiply_rows(one, {.b = memory.b, .rows = &rows, .n = tokens.count}, tokens, memory);
}

/// `operands`: B alone.
void ByteWindowsExecutable::multiply_rows(const Arguments& one, ByteOperands operands,
                                          const Tokens& tokens, const Memory& memory) const {
  operands.zero_point =
      memory.of_tensor.zero_point + (header_.numerics.b == DataType::i8 ? k_byte_bias : 0);
  set_target(one, tokens, memory, operands);
  const ByteValues& values = byte_values(one);
  const bool is_serial = matrix_.steps() * tokens.count < k_least_steps * threads_.count();
  const std::int64_t threads = threads_.count();
  if (tokens.count < k_least_tokens * threads) {
    threads_.run_parts(parts_, is_serial,
                       [&](const RowRange& groups) { matrix_.run(groups, operands, values); });
    return;
  }
  threads_.run_tasks(is_serial ? 1 : threads, is_serial, [&](std::int64_t part) {
    const std::int64_t parts = is_serial ? 1 : threads;
    ByteRows some_rows = *operands.rows;
    some_rows.first = tokens.count * part / parts;
    ByteOperands some = operands;
    some.rows = &some_rows;
    some.n = tokens.count * (part + 1) / parts - some_rows.first;
    some.c += some_rows.first * operands.token_bytes;
    matrix_.run({0, matrix_.groups()}, some, values);
  });
}

}  // namespace spjit
