#pragma once

/// @file
/// One SM: the schedulers of its partitions issue the instructions of its warps.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "clock/memory_model.hpp"
#include "clock/result_waits.hpp"
#include "clock/warp_trace.hpp"

namespace spjit {

/// The cycles of a scheduler by their use.
struct SchedulerCycles {
  double issued = 0;   ///< an instruction was issued
  double unit = 0;     ///< the unit of the next one was busy
  double stall = 0;    ///< stall counts of the code
  double memory = 0;   ///< scoreboards of loads and stores
  double latency = 0;  ///< other scoreboards, barriers of the block
  double fetch = 0;    ///< instructions had not come
  double empty = 0;    ///< no warp, until the launch's end

  SchedulerCycles& operator+=(const SchedulerCycles& other);
};

/// Refers to its parts, which outlive it.
class SmModel {
 public:
  struct Parts {
    const ClockConstants& constants;
    const ClockProgram& program;
    DeviceMemory& device;
    std::int64_t partitions;
    double l1_bytes;
    bool code_in_l2;
    bool instructions_at_hand;  ///< no way of theirs is modelled
    const ResultWaits& waits;
  };

  explicit SmModel(const Parts& parts);

  /// The warps of a block begin at `at`.
  void start_block(double at, std::vector<WarpTrace> warps);
  /// When the next instruction is issued; none if no warp is left.
  [[nodiscard]] std::optional<double> next() const;
  /// Issues it. True if a block has ended with it.
  bool issue();

  [[nodiscard]] std::int64_t blocks() const noexcept { return running_; }
  /// When the last block that has ended did, with its stores.
  [[nodiscard]] double ended() const noexcept { return ended_; }
  [[nodiscard]] const SchedulerCycles& cycles() const noexcept { return cycles_; }
  [[nodiscard]] const SmMemory& memory() const noexcept { return memory_; }

 private:
  enum class Reason : std::uint8_t { stall, memory, latency, fetch };
  static constexpr std::size_t k_units = 10;

  struct Block {
    std::int64_t live = 0;     ///< warps that have not ended
    std::int64_t waiting = 0;  ///< at its barrier
    double stored = 0;         ///< when its last store has left
  };

  struct Warp {
    WarpTrace trace;
    std::shared_ptr<Block> block;
    std::size_t at = 0;  ///< step
    std::uint64_t age = 0;
    double ready = 0;  ///< by stall counts
    double fetched = 0;
    std::uint64_t line = ~std::uint64_t{0};
    WarpResults results;
    double eligible = 0;
    Reason reason = Reason::stall;
    bool is_waiting = false;
  };

  struct Partition {
    std::vector<std::unique_ptr<Warp>> warps;  ///< oldest first
    std::array<double, k_units> unit_free = {};
    double now = 0;
    std::uint64_t turn = 0;  ///< the number of its last one at the memory unit
    std::uint64_t last = 0;  ///< age of the warp that was issued last
    // The next issue.
    double next = 0;
    std::size_t chosen = 0;
    bool has_next = false;
  };

  [[nodiscard]] const ClockOperation& operation_of(const Warp& warp) const;
  void fetch_next(Warp& warp, std::size_t partition, double at);
  void set_eligible(Warp& warp) const;
  [[nodiscard]] double earliest(const Partition& partition, const Warp& warp) const;
  void choose(std::size_t partition);
  void account(Partition& partition, const Warp& warp, double at);
  void execute(Partition& partition, Warp& warp, const ClockOperation& operation, double at);
  void reach_barrier(Warp& warp, double at);
  void release(const Block* block, double at);
  bool end_warp(std::size_t partition, std::size_t index, double at);

  const ClockConstants& constants_;
  const ClockProgram& program_;
  SmMemory memory_;
  CodePath code_;
  bool in_turn_;
  bool instructions_at_hand_;
  const ResultWaits& waits_;
  std::array<double, k_units> intervals_ = {};
  std::vector<Partition> partitions_;
  std::uint64_t ages_ = 0;
  std::uint64_t turns_ = 0;
  std::int64_t running_ = 0;
  double ended_ = 0;
  SchedulerCycles cycles_;
};

}  // namespace spjit
