#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulated_driver/sass/operation.hpp"

namespace spjit::emulated {

/// Whether the control bits of a warp's instructions wait for what they read and overwrite. Time is
/// the least that the stall counts leave: nothing else ever holds the warp up. Throws ProgramError
/// (FaultKind::hazard) where a result may not be there, or an operand not have been read.
class Hazards {
 public:
  explicit Hazards(int arch) : arch_(arch) {}

  /// Waits as the operation's mask says.
  void wait(const SassOperation& operation);
  /// Of registers that the operation reads.
  void check_source(const SourceRegister& source) const;
  /// Of those that it writes.
  void check_result(const ResultRegister& result, const SassOperation& operation) const;
  /// The operation was issued; `is_executed` by any lane. Time goes on by its stall count.
  void issue(const SassOperation& operation, bool is_executed);
  /// All operands of loads and stores have been read: what a block's barrier waits for.
  void drain_memory();
  /// Time of the warp: the stall counts of all that it has issued. No GPU's cycles.
  [[nodiscard]] std::uint64_t clock() const noexcept { return clock_; }

 private:
  static constexpr std::size_t k_scoreboards = 6;
  static constexpr std::size_t k_queues = 4;
  using Sequences = std::array<std::uint64_t, k_queues>;

  /// Six counters, as how often each was waited for.
  struct Scoreboard {
    std::uint64_t waits = 0;
    std::uint64_t set_at = 0;
    bool is_set = false;
    Sequences results = {};  ///< what is done in each queue when this is waited for
    Sequences sources = {};
  };

  /// A scoreboard that something is done with once it has been waited for again; or a place in a
  /// queue.
  struct Completion {
    std::uint8_t scoreboard = sass::k_no_scoreboard;
    std::uint64_t waits = 0;
    sass::InOrder queue = sass::InOrder::none;
    std::uint64_t sequence = 0;
  };

  struct State {
    const SassOperation* writer = nullptr;  ///< of fixed latency, or whose result is awaited
    std::uint64_t issued = 0;
    sass::ResultClass result = sass::ResultClass::logic;
    Completion written;
    const SassOperation* reader = nullptr;  ///< that may not have read the register
    Completion read;                        ///< by its read barrier
    Completion read_done;                   ///< by that of its result
  };

  [[nodiscard]] bool is_done(const Completion& completion, const Sequences& done) const noexcept;
  [[nodiscard]] Completion completion(std::uint8_t scoreboard, sass::InOrder queue) const noexcept;
  void set(std::uint8_t scoreboard, const SassOperation& operation, bool of_results);

  int arch_;
  std::uint64_t clock_ = 0;
  std::array<Scoreboard, k_scoreboards> scoreboards_ = {};
  Sequences issued_ = {};  ///< operations given to each queue
  Sequences results_done_ = {};
  Sequences sources_done_ = {};
  std::array<State, k_register_places> states_ = {};
};

}  // namespace spjit::emulated
