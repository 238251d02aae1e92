#pragma once

/// @file
/// A cubin as the ELF file it is: sections, symbols, NVIDIA's attributes and relocations. What they
/// say about kernels is read by others.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// A section with its content. Views point into the bytes that the CubinFile was made of.
struct CubinSection {
  std::string_view name;
  std::uint32_t type = 0;  ///< SHT_*
  std::uint64_t flags = 0;
  std::uint64_t size = 0;            ///< bytes in memory
  std::uint32_t info = 0;            ///< of relocations: the section that they patch
  std::span<const std::byte> bytes;  ///< empty where the file holds none

  [[nodiscard]] bool is_code() const noexcept;
  /// Memory that begins as zeros or undefined: .nv.shared.*, .nv.global.
  [[nodiscard]] bool is_without_bytes() const noexcept;
};

struct CubinSymbol {
  std::string_view name;
  std::uint32_t section = 0;  ///< 0: undefined here
  std::uint64_t value = 0;    ///< an offset into the section
  std::uint64_t size = 0;     ///< bytes
  bool is_function = false;
  bool is_kernel = false;  ///< `__global__`
};

/// A record of .nv.info: `payload` of the long form, else `value`.
struct CubinAttribute {
  std::uint8_t code = 0;
  std::uint16_t value = 0;
  std::span<const std::byte> payload;

  /// The 32-bit word `index` of the payload. Throws Error if it is shorter.
  [[nodiscard]] std::uint32_t word(std::uint64_t index) const;
};

struct CubinRelocation {
  std::uint32_t section = 0;           ///< that is patched
  std::uint64_t offset = 0;            ///< into it, < its size
  std::uint32_t type = 0;              ///< R_CUDA_*
  std::uint32_t symbol = 0;            ///< index into symbols()
  std::optional<std::int64_t> addend;  ///< none: it is in the field that is patched
};

/// Throws Error for a cubin that is wrong in the way that `reason` says.
[[noreturn]] void refuse_cubin(const std::string& reason);

/// Reads a cubin of CUDA 11.8 - 13 (ELF ABI versions 7 and 8). Every offset, size, index and string
/// is checked before it is used, so hostile bytes end in an Error that says what is wrong. The
/// bytes must outlive it and need no alignment.
class CubinFile {
 public:
  explicit CubinFile(std::span<const std::byte> bytes);

  [[nodiscard]] int arch() const noexcept { return arch_; }                 ///< 90 is sm_90
  [[nodiscard]] bool relocatable() const noexcept { return relocatable_; }  ///< to be linked
  /// Both indexed as in the file.
  [[nodiscard]] const std::vector<CubinSection>& sections() const noexcept { return sections_; }
  [[nodiscard]] const std::vector<CubinSymbol>& symbols() const noexcept { return symbols_; }
  /// The first section of that name, or null.
  [[nodiscard]] const CubinSection* find_section(std::string_view name) const noexcept;
  /// The relocations of all sections, in file order.
  [[nodiscard]] std::vector<CubinRelocation> relocations() const;

 private:
  int arch_ = 0;
  bool relocatable_ = false;
  std::vector<CubinSection> sections_;
  std::vector<CubinSymbol> symbols_;
  std::map<std::string_view, std::size_t> by_name_;
};

/// The attributes of .nv.info or .nv.info.KERNEL.
[[nodiscard]] std::vector<CubinAttribute> read_cubin_attributes(const CubinSection& section);

}  // namespace spjit
