#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sass/lanes.hpp"
#include "spjit/error.hpp"

namespace spjit::sass {

/// Lanes that wait for others in vain.
class ConvergenceError : public Error {
 public:
  using Error::Error;
};

/// Which lanes of a warp are where: those at one place run together until a branch parts them, and
/// meet again where convergence barriers (BSSY, BSYNC) or WARPSYNC say so. Throws
/// ConvergenceError.
class Convergence {
 public:
  /// Places are numbers of operations.
  Convergence(LaneMask lanes, std::uint32_t place) : live_(lanes), active_(lanes), place_(place) {}

  [[nodiscard]] LaneMask active() const noexcept { return active_; }
  [[nodiscard]] LaneMask live() const noexcept { return live_; }  ///< that have not exited
  [[nodiscard]] std::uint32_t place() const noexcept { return place_; }
  void go_on() noexcept { ++place_; }

  /// Lanes and the place they are at.
  struct Group {
    LaneMask lanes = 0;
    std::uint32_t place = 0;
  };

  /// `lanes` of the active ones go to `target`, the others on.
  void branch(LaneMask lanes, std::uint32_t target);
  /// Groups of the active lanes go to places of their own, those in none on.
  void scatter(const std::vector<Group>& groups);
  void exit(LaneMask lanes);
  /// BSSY: the active lanes will meet at a BSYNC before `target`.
  void open(unsigned barrier, std::uint32_t target);
  /// BREAK: the lanes will not come.
  void leave(unsigned barrier, LaneMask lanes);
  /// BSYNC: the active lanes wait until all of the barrier's are there.
  void meet(unsigned barrier);
  /// WARPSYNC: the active lanes wait until all of `mask` wait so.
  void meet_all(LaneMask mask);
  [[nodiscard]] LaneMask members(unsigned barrier) const noexcept {
    return barriers_[barrier].members;
  }
  void set_members(unsigned barrier, LaneMask lanes) noexcept {
    barriers_[barrier].members = lanes;
  }

  /// Goes on with lanes that can run; false if all have exited.
  bool next();

 private:
  struct Barrier {
    LaneMask members = 0;
    LaneMask waiting = 0;
    std::uint32_t target = 0;
  };

  struct Sync {
    LaneMask mask = 0;
    Group group;
  };

  void resume(const Group& group);
  bool resume_barrier();
  bool resume_sync();
  [[nodiscard]] std::string waiting_text() const;

  LaneMask live_;
  LaneMask active_;
  std::uint32_t place_;
  std::vector<Group> ready_;
  std::array<Barrier, 16> barriers_ = {};
  std::vector<Sync> syncs_;
};

}  // namespace spjit::sass
