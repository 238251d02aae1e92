#pragma once

/// @file
/// A compiled host kernel outside memory: code, weights and a program record, and the ELF object
/// that holds the three.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

/// The three parts. Families that read A have no text; docs/design/cache-format.md says what is
/// where.
struct HostImage {
  std::span<const std::byte> text;
  std::span<const std::byte> weights;
  std::span<const std::byte> program;
};

/// Owns what a HostImage refers to.
struct HostArtifact {
  std::vector<std::uint8_t> text;
  std::vector<std::uint32_t> weights;  ///< bits of floats and, where A is read, of columns
  std::vector<std::int64_t> program;

  [[nodiscard]] HostImage image() const noexcept;
  /// Bytes of code and weights, what a run goes through.
  [[nodiscard]] std::size_t run_bytes() const noexcept {
    return text.size() + weights.size() * sizeof(weights[0]);
  }
};

/// Appends the bits of floats or columns.
template <class T>
void append_bits(std::vector<std::uint32_t>& words, const std::vector<T>& values,
                 const Cancellation& cancel) {
  static_assert(sizeof(T) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<T>);
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t size = words.size();
    const auto count = static_cast<std::size_t>(end - begin);
    words.resize(size + count);
    std::memcpy(words.data() + size, values.data() + begin, count * sizeof(T));
  });
}

/// The file of an artifact that holds a host kernel, and the name of the symbols in it.
inline constexpr const char* k_object_file = "kernel.o";
inline constexpr const char* k_object_name = "kernel";

/// Where text and weights begin in an object: at a cache line if it is to be linked, at a page if
/// it is to be mapped, so that pages of text hold nothing else.
inline constexpr std::uint64_t k_linked_alignment = 64;
inline constexpr std::uint64_t k_mapped_alignment = 4096;

/// An ELF object with `spjit_<name>_text`, `_weights` and `_program`. Throws what `cancel` throws
/// soon after it is reached.
[[nodiscard]] std::vector<std::byte> write_object(const HostImage& image, const std::string& name,
                                                  const Cancellation& cancel = {},
                                                  std::uint64_t alignment = k_linked_alignment);
/// The parts of such an object; views into `object`. Throws Error for anything else.
[[nodiscard]] HostImage read_object(std::span<const std::byte> object, const std::string& name);

}  // namespace spjit
