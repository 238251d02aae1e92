#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "emulated_driver/access.hpp"
#include "emulated_driver/program_error.hpp"
#include "emulated_driver/sass/block.hpp"
#include "emulated_driver/sass/hazards.hpp"
#include "emulated_driver/sass/register_file.hpp"
#include "sass/convergence.hpp"

namespace spjit::emulated {

using sass::Convergence;

enum class WarpState : std::uint8_t { running, waiting, exited };

/// A block's barrier that a warp waits at.
struct BlockBarrier {
  std::uint32_t number = 0;
  std::uint32_t threads = 0;  ///< expected; 0: all of the block
  std::uint32_t operation = 0;
};

/// Where an access of lanes goes, and how wide it is for each.
struct LaneAccess {
  AccessSpace space = AccessSpace::none;
  bool is_store = false;
  std::uint32_t width_bytes = 0;
  std::array<Address, k_lanes> addresses = {};
};

/// Memory that lies together: all that the lanes of one access need, from address `begin` on.
struct Region {
  Place place{};
  Address begin = 0;

  [[nodiscard]] Place at(Address address) const noexcept {
    return {place.bytes + (address - begin), place.defined + (address - begin)};
  }
};

/// One warp of a block: executes until its lanes have exited or it waits at a barrier.
class Warp {
 public:
  Warp(SassBlock& block, std::uint32_t index);

  /// Executes at most `budget` instructions; returns how many it did. Throws ProgramError with the
  /// place and the text of the instruction at fault.
  std::uint64_t run(std::uint64_t budget);
  [[nodiscard]] WarpState state() const noexcept { return state_; }
  [[nodiscard]] const BlockBarrier& barrier() const noexcept { return barrier_; }
  [[nodiscard]] std::uint32_t threads() const noexcept { return threads_; }
  void release();

  // What handlers use.
  [[nodiscard]] const SassBlock& block() const noexcept { return block_; }
  [[nodiscard]] const SassProgram& program() const noexcept { return *block_.program; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] std::uint64_t clock() const noexcept { return hazards_.clock(); }
  [[nodiscard]] RegisterFile& registers() noexcept { return registers_; }
  [[nodiscard]] Convergence& convergence() noexcept { return convergence_; }
  /// Lanes that execute the instruction.
  [[nodiscard]] LaneMask exec() const noexcept { return exec_; }
  [[nodiscard]] std::uint32_t place() const noexcept { return convergence_.place(); }

  /// A source of 32 bits in all lanes, with its signs as of an integer or of a float. It may be in
  /// `room`. `part` 1 is the upper half of a pair.
  [[nodiscard]] const Lanes& integers(const sass::Operand& operand, Lanes& room,
                                      unsigned part = 0) const;
  [[nodiscard]] const Lanes& floats(const sass::Operand& operand, Lanes& room) const;
  /// Operands of the uniform datapath.
  [[nodiscard]] std::uint32_t scalar(const sass::Operand& operand, unsigned part = 0) const;
  [[nodiscard]] LaneMask predicate(const sass::Operand& operand) const;
  [[nodiscard]] bool uniform_predicate(const sass::Operand& operand) const;

  void write(const sass::Operand& operand, const Lanes& values, unsigned part = 0) {
    if (operand.number == sass::k_zero_register) return;
    registers_.write(operand.number + part, values, exec_);
  }
  void write_predicate(const sass::Operand& operand, LaneMask values) {
    registers_.write_predicate(operand.number, values, exec_);
  }
  void write_scalar(const sass::Operand& operand, std::uint32_t value, unsigned part = 0) {
    if (operand.number == sass::k_zero_uniform) return;
    registers_.write_uniform(operand.number + part, value);
  }

  /// Where lanes that execute a load or store go. Throws ProgramError for an address that is not a
  /// multiple of the width.
  [[nodiscard]] LaneAccess access(const SassOperation& operation, AccessSpace space,
                                  std::uint32_t width_bytes, bool is_store);
  /// The bytes of each lane's access and whether each has been written, given to
  /// `use(lane, place)`. Throws ProgramError for what is not in one allocation.
  template <class Use>
  void for_each_place(const LaneAccess& access, Use&& use) {
    if (const std::optional<Region> region = region_of(access)) {
      for_each_lane(exec_, [&](unsigned lane) { use(lane, region->at(access.addresses[lane])); });
      return;
    }
    for_each_lane(exec_, [&](unsigned lane) { use(lane, place_of(access, lane)); });
  }
  void observe(const LaneAccess& access);

  void wait_at(const BlockBarrier& barrier);

 private:
  void step();
  /// The allocation that all lanes of an access of global memory are in, if it is one.
  [[nodiscard]] std::optional<Region> region_of(const LaneAccess& access);
  [[nodiscard]] Place place_of(const LaneAccess& access, unsigned lane);
  void check(const SassOperation& operation) const;
  [[nodiscard]] LaneMask guarded(const SassOperation& operation) const;
  [[nodiscard]] ShadowedBytes& local_memory(unsigned lane);
  void tell_at(std::uint32_t operation, const LaneAccess& access);
  void check_descriptor(unsigned uniform) const;
  [[noreturn]] void rethrow_located(const ProgramError& error) const;

  SassBlock& block_;
  std::uint32_t index_;
  std::uint32_t threads_;
  RegisterFile registers_;
  Hazards hazards_;
  Convergence convergence_;
  LaneMask exec_ = 0;
  WarpState state_ = WarpState::running;
  BlockBarrier barrier_;
  bool was_told_ = false;  ///< the observer has the instruction with its addresses
  Allocation* last_allocation_ = nullptr;
  std::array<ShadowedBytes, k_lanes> local_;
};

}  // namespace spjit::emulated
