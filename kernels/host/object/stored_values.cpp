#include "kernels/host/object/stored_values.hpp"

#include <algorithm>
#include <cstring>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "plan/elements.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_word_bytes = sizeof(std::uint32_t);

/// Of a type of whole bytes, or the four bits of an i4.
constexpr std::uint32_t k_low_half = 0xF;

std::byte packed(std::span<const float> pair) {
  std::uint32_t byte = 0;
  for (std::size_t i = 0; i < pair.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(static_cast<std::int32_t>(pair[i]));
    byte |= (value & k_low_half) << (4 * i);
  }
  return static_cast<std::byte>(byte);
}

float unpacked(std::byte byte, bool is_second) {
  const std::uint32_t bits = static_cast<std::uint32_t>(byte) >> (is_second ? 4U : 0U) & k_low_half;
  constexpr std::uint32_t k_sign = 8;
  return static_cast<float>(static_cast<std::int32_t>(bits ^ k_sign) -
                            static_cast<std::int32_t>(k_sign));
}

/// Values [begin, end) of a piece, which begins at a whole byte.
void write(DataType type, std::span<const float> values, std::byte* to) {
  if (is_half(type)) {
    round_of(type, HostIsa::generic)(values.data(), std::ssize(values),
                                     reinterpret_cast<std::uint16_t*>(to));
    return;
  }
  if (type != DataType::i4) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_element(type, to, static_cast<std::int64_t>(i), static_cast<double>(values[i]));
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    *to++ = packed(values.subspan(i, std::min<std::size_t>(2, values.size() - i)));
  }
}

}  // namespace

std::int64_t stored_bytes(DataType type, std::int64_t values) noexcept {
  const std::int64_t bits = values * info_of(type).bits;
  constexpr std::int64_t k_word_bits = 32;
  return ceil_div(bits, k_word_bits) * k_word_bytes;
}

void append_values(std::vector<std::uint32_t>& words, DataType type, std::span<const float> values,
                   const Cancellation& cancel) {
  const std::size_t first = words.size();
  words.resize(first + to_size(stored_bytes(type, std::ssize(values)) / k_word_bytes));
  auto* const to = reinterpret_cast<std::byte*>(words.data() + first);
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    write(type, values.subspan(to_size(begin), to_size(end - begin)), to + bytes_of(type, begin));
  });
}

std::vector<float> read_values(DataType type, std::span<const std::byte> stored, std::int64_t count,
                               const Cancellation& cancel) {
  std::vector<float> values(to_size(count));
  const WidenHalves widen = is_half(type) ? widen_of(type, HostIsa::generic) : nullptr;
  for_each_piece(count, cancel, [&](std::int64_t begin, std::int64_t end) {
    if (widen != nullptr) {
      widen(reinterpret_cast<const std::uint16_t*>(stored.data()) + begin, end - begin,
            values.data() + begin);
      return;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      values[to_size(i)] = type == DataType::i4
                               ? unpacked(stored[to_size(i / 2)], i % 2 != 0)
                               : static_cast<float>(load_element(type, stored.data(), i));
    }
  });
  return values;
}

}  // namespace spjit
