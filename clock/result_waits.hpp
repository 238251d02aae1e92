#pragma once

/// @file
/// How an instruction waits for the results of those before it in its warp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "clock/clock_program.hpp"
#include "clock/memory_model.hpp"

namespace spjit {

/// When results of a warp's instructions are there. [cycles]
struct WarpResults {
  static constexpr std::size_t k_scoreboards = 6;

  std::array<double, k_scoreboards> scoreboards = {};
  std::array<bool, k_scoreboards> is_memory = {};  ///< a load or store raised it last
  std::vector<double> registers;  ///< by number; empty where nothing waits for them
};

/// Waits for results of one program. Operations are the program's, by their numbers.
class ResultWaits {
 public:
  struct Wait {
    double until = 0;
    bool is_memory = false;  ///< for a load or store
  };

  virtual ~ResultWaits() = default;

  [[nodiscard]] virtual WarpResults no_results() const = 0;
  /// From the issue of an operation to that of the warp's next one. [cycles]
  [[nodiscard]] virtual double issue_distance(std::uint32_t operation) const = 0;
  /// Until the results of an operation without a scoreboard are there; none where the code counts
  /// on it. [cycles]
  [[nodiscard]] virtual std::optional<double> fixed_latency(std::uint32_t operation) const = 0;
  /// The last result that an operation waits for, if it comes after `ready`.
  [[nodiscard]] virtual std::optional<Wait> wait_of(const WarpResults& results,
                                                    std::uint32_t operation,
                                                    double ready) const = 0;
  /// An operation was issued, whose results are there at `times`.
  virtual void add(WarpResults& results, std::uint32_t operation, const AccessTimes& times,
                   bool is_access) const = 0;
};

/// As devices do: stall counts of the code, and the scoreboards that it waits for. The program
/// outlives it.
[[nodiscard]] std::unique_ptr<const ResultWaits> waits_by_scoreboard(const ClockProgram& program);

/// As the simulator of docs/results/clock.md does: an instruction waits for the registers that it
/// reads and writes, whatever the code says. The program outlives it.
[[nodiscard]] std::unique_ptr<const ResultWaits> waits_by_register(const ClockProgram& program);

}  // namespace spjit
