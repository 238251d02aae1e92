#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulated_driver/sass/lanes.hpp"
#include "sass/dependencies.hpp"

namespace spjit::emulated {

/// The place of a register, predicate or uniform one among all of a warp.
using RegisterIndex = std::uint16_t;

inline constexpr RegisterIndex k_uniform_base = 256;
inline constexpr RegisterIndex k_predicate_base = k_uniform_base + 64;
inline constexpr RegisterIndex k_uniform_predicate_base = k_predicate_base + 8;
inline constexpr RegisterIndex k_register_places = k_uniform_predicate_base + 8;

[[nodiscard]] constexpr RegisterIndex register_index(sass::OperandKind kind, unsigned number) {
  const RegisterIndex base = kind == sass::OperandKind::reg         ? RegisterIndex{0}
                             : kind == sass::OperandKind::uniform   ? k_uniform_base
                             : kind == sass::OperandKind::predicate ? k_predicate_base
                                                                    : k_uniform_predicate_base;
  return static_cast<RegisterIndex>(base + number);  // numbers are at most 255
}

/// The place of none.
inline constexpr RegisterIndex k_no_register = k_register_places;

/// "R4", "UR2", "P0", "UP1"
[[nodiscard]] std::string register_text(RegisterIndex index);

/// Values of a warp's registers, and the lanes that have written each.
class RegisterFile {
 public:
  /// All registers are unwritten.
  explicit RegisterFile(unsigned registers);

  /// RZ reads as zeros; its number is no index of what can be written.
  [[nodiscard]] const Lanes& lanes(unsigned number) const noexcept {
    return number == sass::k_zero_register ? zeros_ : lanes_[number];
  }
  [[nodiscard]] Lanes& lanes_to_write(unsigned number) noexcept { return lanes_[number]; }
  [[nodiscard]] LaneMask predicate(unsigned number) const noexcept { return predicates_[number]; }
  [[nodiscard]] std::uint32_t uniform(unsigned number) const noexcept { return uniforms_[number]; }
  [[nodiscard]] bool uniform_predicate(unsigned number) const noexcept {
    return uniform_predicates_[number] != 0;
  }

  /// Only `mask`'s lanes change. RZ, PT, URZ and UPT stay what they are.
  void write(unsigned number, const Lanes& values, LaneMask mask);
  void write_predicate(unsigned number, LaneMask values, LaneMask mask);
  void write_uniform(unsigned number, std::uint32_t value);
  void write_uniform_predicate(unsigned number, bool value);

  /// Lanes that count as not having written a register, whatever was done to it.
  void forget(RegisterIndex index, LaneMask mask) noexcept { written_[index] &= ~mask; }

  /// Lanes that have written a register; of uniform ones all or none.
  [[nodiscard]] LaneMask written(RegisterIndex index) const noexcept { return written_[index]; }

 private:
  std::vector<Lanes> lanes_;
  Lanes zeros_ = {};
  std::array<LaneMask, 8> predicates_ = {};
  std::array<std::uint32_t, 64> uniforms_ = {};
  std::array<std::uint8_t, 8> uniform_predicates_ = {};
  std::array<LaneMask, k_register_places> written_ = {};
};

}  // namespace spjit::emulated
