#pragma once

/// @file
/// Constants of a device that the clock needs beside CudaDeviceInfo. Reads devices/*.json, where
/// each number has its unit and its source.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spjit {

/// Which of a partition's warps that can be issued is.
enum class WarpOrder : std::uint8_t {
  greedy,   ///< the one that was issued last, else the oldest
  in_turn,  ///< the one after it
};

/// Which SM a block of the second and later rounds goes to, where an SM holds several at once.
enum class BlockOrder : std::uint8_t {
  same,   ///< the one of the block before it by the number of SMs
  moved,  ///< each round begins at another SM, so that distances of blocks are no accident
};

/// Constants of one architecture. Cycles are the SM's.
struct ClockConstants {
  int arch = 0;
  std::string compared_with;  ///< what the model's cycles were compared with; "nothing"

  WarpOrder warp_order = WarpOrder::greedy;
  BlockOrder block_order = BlockOrder::same;

  // Instructions: cycles a unit of a partition is busy with one of a warp.
  double fp32_interval = 0;
  double integer_interval = 0;
  double half_interval = 0;
  double special_interval = 0;
  double uniform_interval = 0;
  double memory_interval = 0;  ///< loads and stores that a partition hands over

  // Cycles from the issue to the scoreboard's release.
  double special_latency = 0;
  double constant_latency = 0;
  double shared_latency = 0;
  double l1_latency = 0;
  double l2_latency = 0;
  double dram_latency = 0;
  double operands_latency = 0;  ///< until a load or store has read its operands
  double barrier_latency = 0;   ///< from the last warp's BAR until warps go on

  // Memory.
  double l1_bytes_a_cycle = 0;  ///< an SM
  double unified_kib = 0;       ///< L1 and shared memory
  double most_l1_kib = 0;
  std::vector<double> shared_carveouts_kib;  ///< what shared memory can be, ascending
  double l1_sets = 0;                        ///< of L1's lines, by their addresses
  double misses_in_flight = 0;               ///< sectors an SM waits for at once
  double l2_bytes_a_cycle = 0;               ///< an SM's share of what L2 gives, when all ask
  double l2_port_bytes_a_cycle = 0;          ///< that one SM can take
  double request_bytes_a_cycle = 0;          ///< an SM asks for and stores
  double dram_bytes_a_cycle = 0;             ///< an SM's share

  // Instructions' way.
  double l0_code_bytes = 0;    ///< a partition
  double l1_code_bytes = 0;    ///< an SM
  double l1_code_latency = 0;  ///< beyond L0's
  double l2_code_latency = 0;
  double l1_code_bytes_a_cycle = 0;  ///< a partition
  double l2_code_bytes_a_cycle = 0;  ///< an SM
  double prefetched_lines = 0;       ///< of 128 bytes, behind the one that is fetched

  // A launch.
  double launch_cycles = 0;
  double block_cycles = 0;  ///< from a block's end to the first instruction of the next
  double boost_mhz = 0;     ///< of a card that boost_of() does not name
  std::vector<std::pair<std::string, double>> card_mhz;

  /// Clock rate of a card, by CudaDeviceInfo::card.
  [[nodiscard]] double mhz_of(std::string_view card) const noexcept;
};

/// The constants of `arch` (75, 80 or 90), which come with the library; none of others.
[[nodiscard]] std::optional<ClockConstants> clock_constants(std::int64_t arch);

/// The constants of `arch`. Throws NotSupported for an architecture without any.
[[nodiscard]] ClockConstants required_clock_constants(std::int64_t arch);

/// Constants for estimates, of any architecture: those of the latest one that has some and is not
/// newer, else of the first. For 8.6 and 8.9 these are the A100's with its fp32_interval halved, as
/// they have 128 FP32 lanes an SM (CUDA C++ Programming Guide, "Compute Capabilities").
[[nodiscard]] const ClockConstants& nearest_clock_constants(std::int64_t arch);

/// Reads such a file. Throws Error for text that is none, for a constant that is missing, unknown,
/// not positive or without a unit or source.
[[nodiscard]] ClockConstants read_clock_constants(std::string_view text);

}  // namespace spjit
