#pragma once

/// @file
/// Registers of a warp as far as they are known: integers that follow from the launch are, numbers
/// of the problem are not.

#include <array>
#include <cstdint>
#include <vector>

#include "sass/instruction.hpp"
#include "sass/lanes.hpp"

namespace spjit {

/// A word of all lanes.
struct KnownLanes {
  sass::Lanes lanes = {};
  sass::LaneMask known = 0;
  /// Something that was loaded is in these, other than through arithmetic on numbers: an index.
  sass::LaneMask loaded = 0;

  [[nodiscard]] static KnownLanes of(std::uint32_t value) {
    KnownLanes made;
    made.lanes.values.fill(value);
    made.known = sass::k_all_lanes;
    return made;
  }
};

/// A predicate of all lanes.
struct KnownMask {
  sass::LaneMask values = 0;
  sass::LaneMask known = 0;

  [[nodiscard]] sass::LaneMask certainly() const noexcept { return values & known; }
  [[nodiscard]] sass::LaneMask perhaps() const noexcept { return values | ~known; }
};

/// A word of the warp, of the uniform datapath.
struct KnownWord {
  std::uint32_t value = 0;
  bool is_known = false;
  bool is_loaded = false;
};

class WarpRegisters {
 public:
  explicit WarpRegisters(unsigned registers) : lanes_(registers + 1) {
    for (KnownLanes& lanes : lanes_) lanes.known = 0;
    zeros_ = KnownLanes::of(0);
    predicates_[sass::k_true] = {sass::k_all_lanes, sass::k_all_lanes};
    uniform_predicates_[sass::k_true] = {1, true, false};
  }

  /// Numbers beyond the kernel's registers read as what is not known.
  [[nodiscard]] const KnownLanes& lanes(unsigned number) const noexcept {
    if (number == sass::k_zero_register) return zeros_;
    return number + 1 < lanes_.size() ? lanes_[number] : lanes_.back();
  }
  [[nodiscard]] const KnownMask& predicate(unsigned number) const noexcept {
    return predicates_[number];
  }
  [[nodiscard]] KnownWord uniform(unsigned number) const noexcept {
    return number == sass::k_zero_uniform ? KnownWord{0, true, false} : uniforms_[number];
  }
  [[nodiscard]] KnownWord uniform_predicate(unsigned number) const noexcept {
    return uniform_predicates_[number];
  }

  /// Lanes of `all` are written, for certain those of `certain`.
  void write(unsigned number, const KnownLanes& value, sass::LaneMask certain, sass::LaneMask all) {
    if (number == sass::k_zero_register || number + 1 >= lanes_.size()) return;
    KnownLanes& to = lanes_[number];
    if (certain == sass::k_all_lanes) {
      to = value;
      return;
    }
    sass::for_each_lane(certain, [&](unsigned i) { to.lanes[i] = value.lanes[i]; });
    to.known = (to.known & ~all) | (value.known & certain);
    to.loaded = (to.loaded & ~all) | (value.loaded & all);
  }
  /// Nothing is known of these lanes any more.
  void forget(unsigned number, sass::LaneMask lanes, bool is_loaded) {
    if (number == sass::k_zero_register || number + 1 >= lanes_.size()) return;
    KnownLanes& to = lanes_[number];
    to.known &= ~lanes;
    to.loaded = is_loaded ? to.loaded | lanes : to.loaded & ~lanes;
  }
  void write_predicate(unsigned number, KnownMask value, sass::LaneMask certain,
                       sass::LaneMask all) {
    if (number == sass::k_true) return;
    KnownMask& to = predicates_[number];
    to.values = (to.values & ~certain) | (value.values & certain);
    to.known = (to.known & ~all) | (value.known & certain);
  }
  void write_uniform(unsigned number, KnownWord value) {
    if (number != sass::k_zero_uniform) uniforms_[number] = value;
  }
  void write_uniform_predicate(unsigned number, KnownWord value) {
    if (number != sass::k_true) uniform_predicates_[number] = value;
  }

 private:
  std::vector<KnownLanes> lanes_;  ///< the last one is of numbers beyond
  KnownLanes zeros_;
  std::array<KnownMask, 8> predicates_ = {};
  std::array<KnownWord, 64> uniforms_ = {};
  std::array<KnownWord, 8> uniform_predicates_ = {};
};

}  // namespace spjit
