#pragma once

/// @file
/// The clock: how long a launch of a cubin takes on a GPU that is not there. It reads what ptxas
/// made: stall counts, scoreboards and addresses of the real instructions, instruction by
/// instruction for every warp of the SMs that it models. What it gives is modelled, never measured;
/// docs/results/clock.md says what it was compared with.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "clock/clock_constants.hpp"
#include "clock/sm_model.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// A launch of one of a cubin's kernels.
struct ClockLaunch {
  std::string kernel;
  std::array<std::uint32_t, 3> grid = {1, 1, 1};   ///< blocks
  std::array<std::uint32_t, 3> block = {1, 1, 1};  ///< threads
  std::int64_t dynamic_shared_bytes = 0;           ///< a block
  /// Parameters of the launch, as the driver lays them out. Pointers need point nowhere, but what
  /// they point to must not overlap.
  std::vector<std::byte> parameters;
  std::int64_t touched_bytes = 0;  ///< of operands: whether all of it is in L2
};

/// How much is modelled, and of what, and when it is given up.
struct ClockLimits {
  /// Instructions of warps. Of a launch that has more, so many SMs are modelled that these have
  /// about as many, each with its part of the blocks.
  double most_steps = 2'000'000;
  /// Instructions are where they are needed, as in simulations that leave their way out.
  bool instructions_at_hand = false;
  /// An instruction waits for the registers that it names, not for stall counts and scoreboards: as
  /// in simulations that do not know them. No device does so. Results of a fixed latency are there
  /// after 8 cycles; predicates and uniform registers are not waited for, as in those simulations.
  bool waits_by_register = false;
  Cancellation cancel = {};
};

/// The SM of a block where all SMs still have room: SM after SM gets one, and again, each round
/// from where the order says. 0 to sms - 1.
[[nodiscard]] std::int64_t sm_of_block(std::int64_t block, std::int64_t sms,
                                       BlockOrder order) noexcept;

/// Which of a scheduler's cycles are most.
enum class ClockBound : std::uint8_t { issue, unit, stall, memory, latency, fetch, tail };

/// "issue", "unit", ...
[[nodiscard]] std::string_view to_string(ClockBound bound) noexcept;

struct ModelledTime {
  double cycles = 0;  ///< of the SM's clock, from the launch's begin to its end
  double us = 0;      ///< at the card's boost clock
  ClockBound bound = ClockBound::issue;
  SchedulerCycles schedulers;     ///< of all that were modelled
  double instructions = 0;        ///< of warps that were modelled
  std::int64_t modelled_sms = 0;  ///< of the card's
  std::int64_t modelled_blocks = 0;
  std::int64_t blocks = 0;   ///< of the launch
  double l1_hits = 0;        ///< sectors of loads found in L1, of all; 0 to 1
  double bytes_from_l2 = 0;  ///< of loads
  /// Branches whose predicate depends on data, taken as not taken, and accesses whose address does,
  /// a walk: 0 means that nothing was taken for granted.
  std::int64_t assumptions = 0;
};

/// Models one launch. Deterministic. Throws NotSupported for what cannot be walked (walk_warp()),
/// for a block that the card does not hold, and as load_clock_program(). Throws InvalidArgument for
/// a kernel that is not there and an empty grid or block. Throws what the cancellation throws.
[[nodiscard]] ModelledTime modelled_time(std::span<const std::byte> cubin,
                                         const ClockLaunch& launch, const CudaDeviceInfo& device,
                                         const ClockConstants& constants,
                                         const ClockLimits& limits = {});

}  // namespace spjit
