#pragma once

/// @file
/// Walks a warp through a kernel: integers are computed, so that branches and addresses are known;
/// numbers of the problem are not.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "clock/clock_program.hpp"
#include "clock/warp_registers.hpp"
#include "clock/warp_trace.hpp"
#include "sass/convergence.hpp"

namespace spjit {

/// A launch as a warp sees it.
struct WalkedLaunch {
  const ClockProgram& program;
  const ClockKernel& kernel;
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::array<std::uint32_t, 3> block = {1, 1, 1};
  std::span<const std::byte> parameters;

  [[nodiscard]] std::uint32_t threads() const noexcept { return block[0] * block[1] * block[2]; }
  [[nodiscard]] std::uint32_t warps() const noexcept {
    return (threads() + sass::k_lanes - 1) / sass::k_lanes;
  }
};

/// Instructions of a warp after which a walk gives up.
inline constexpr std::size_t k_most_walked_steps = 4'000'000;

/// Walks warp `warp` of block `index`. It assumes three things, and counts in the trace how often:
/// - a forward branch or an exit whose predicate depends on numbers is not taken
/// - an instruction whose guard depends on numbers is executed
/// - a load whose address was computed from numbers (the table of an activation) finds four sectors
///   that are always the same
///
/// Throws NotSupported, with the place and the instruction, for what it cannot know:
/// - an address or a loop's end that depends on loaded data
/// - an indirect branch to an unknown place
/// - lanes that wait in vain, or more than k_most_walked_steps
[[nodiscard]] WarpTrace walk_warp(const WalkedLaunch& launch,
                                  const std::array<std::uint32_t, 3>& index, std::uint32_t warp);

/// The state of one walk; its members are what the handlers of instructions use.
class WarpWalk {
 public:
  WarpWalk(const WalkedLaunch& launch, const std::array<std::uint32_t, 3>& index,
           std::uint32_t warp);

  [[nodiscard]] WarpTrace run();

 private:
  // warp_walker.cpp
  void step();
  void set_guard(const ClockOperation& operation);
  [[nodiscard]] KnownLanes source(const sass::Operand& operand, unsigned part = 0) const;
  [[nodiscard]] KnownWord scalar(const sass::Operand& operand, unsigned part = 0) const;
  [[nodiscard]] KnownMask mask(const sass::Operand& operand) const;
  [[nodiscard]] KnownWord word(std::uint8_t bank, std::int64_t offset, unsigned bytes) const;
  void write(const sass::Operand& operand, const KnownLanes& value, unsigned part = 0);
  void write_mask(const sass::Operand& operand, KnownMask value);
  void forget_results(const ClockOperation& operation, bool is_loaded);
  [[noreturn]] void refuse(const char* why) const;

  // walk_integer.cpp: false for what they do not compute
  [[nodiscard]] bool integers(const ClockOperation& operation);
  [[nodiscard]] bool extrema(const ClockOperation& operation);
  [[nodiscard]] bool logic(const ClockOperation& operation);
  class Uniforms;
  [[nodiscard]] bool uniforms(const ClockOperation& operation);
  [[nodiscard]] bool uniform_sums(const sass::Instruction& instruction);
  [[nodiscard]] bool moves(const ClockOperation& operation);
  void iadd3(const ClockOperation& operation);
  void imad(const ClockOperation& operation);
  void lea(const ClockOperation& operation);
  void lop3(const ClockOperation& operation);
  void isetp(const ClockOperation& operation);
  void special_register(const ClockOperation& operation);
  void from_predicates(const ClockOperation& operation);
  void to_predicates(const ClockOperation& operation);
  [[nodiscard]] KnownLanes special(std::uint8_t number) const;
  template <class Function>
  void lanes_of(const ClockOperation& operation, std::size_t first, std::size_t count,
                Function&& function);

  // walk_division.cpp
  [[nodiscard]] bool divisions(const ClockOperation& operation);

  // walk_memory.cpp
  void access(const ClockOperation& operation);
  void load_constant(const ClockOperation& operation);
  [[nodiscard]] KnownLanes low_addresses(const sass::Operand& operand,
                                         std::array<std::uint64_t, sass::k_lanes>& addresses,
                                         const ClockOperation& operation) const;
  void add_sectors(const std::array<std::uint64_t, sass::k_lanes>& addresses, unsigned width);
  void add_passes(const std::array<std::uint64_t, sass::k_lanes>& addresses, unsigned width);
  void local(const ClockOperation& operation,
             const std::array<std::uint64_t, sass::k_lanes>& addresses);

  // walk_control.cpp: true if it moved the warp
  [[nodiscard]] bool control(const ClockOperation& operation);
  void branch(const ClockOperation& operation);
  void call(const ClockOperation& operation);
  void go_by_register(const ClockOperation& operation);
  void move_members(const sass::Instruction& instruction);
  [[nodiscard]] sass::LaneMask lane_mask(const sass::Operand& operand) const;
  void go_to_addresses(const sass::Operand& pair, std::uint64_t beyond);
  [[nodiscard]] std::uint32_t operation_at(std::uint64_t address) const;

  const WalkedLaunch& launch_;
  std::array<std::uint32_t, 3> index_;
  std::uint32_t warp_;
  std::uint64_t block_number_ = 0;
  std::vector<std::byte> bank0_;
  std::vector<bool> bank0_known_;
  WarpRegisters registers_;
  sass::Convergence convergence_;
  sass::LaneMask certain_ = 0;                 ///< lanes that execute the instruction
  sass::LaneMask perhaps_ = 0;                 ///< and those whose guard is not known
  std::map<std::uint64_t, KnownLanes> stack_;  ///< words of local memory, by their offset
  WarpTrace trace_;
  std::uint32_t access_ = k_no_access;  ///< of the instruction
};

}  // namespace spjit
