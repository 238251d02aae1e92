#pragma once

/// @file
/// How long accesses of an SM take: a replay of their addresses through L1 and L2, and what each
/// level gives in a cycle. Times are cycles from the launch on.

#include <cstdint>
#include <span>
#include <vector>

#include "clock/clock_constants.hpp"
#include "clock/clock_program.hpp"
#include "clock/sector_cache.hpp"
#include "clock/warp_trace.hpp"

namespace spjit {

/// A resource that serves one request after another.
class Server {
 public:
  /// The cycle at which a request that arrives at `at` and takes `cycles` is served.
  double serve(double at, double cycles) {
    free_ = (at > free_ ? at : free_) + cycles;
    return free_;
  }
  [[nodiscard]] double free() const noexcept { return free_; }
  void block_until(double at) {
    if (at > free_) free_ = at;
  }

 private:
  double free_ = 0;
};

/// A resource whose requests do not come in the order of their times: one that is late takes
/// nothing from those that arrive before it. Each few cycles serve what they can.
class SharedServer {
 public:
  /// As Server's.
  double serve(double at, double cycles);

 private:
  static constexpr double k_slot_cycles = 8;

  struct Slot {
    double used = 0;       ///< cycles of it that are over, served or idle
    std::size_t next = 0;  ///< 0: there is room; else a later slot, where it may be
  };

  [[nodiscard]] std::size_t first_with_room(std::size_t slot);

  std::vector<Slot> slots_;
};

/// The parts that SMs share.
class DeviceMemory {
 public:
  /// `sms`: that are modelled, so that they get their share of what all have. `is_warm`: what the
  /// launch touches is in L2 when it begins.
  DeviceMemory(const ClockConstants& constants, double l2_bytes, std::int64_t sms, bool is_warm)
      : constants_(constants),
        l2_(is_warm ? 0 : l2_bytes),
        sms_(static_cast<double>(sms)),
        is_warm_(is_warm) {}

  /// When a sector that is asked for at `at` leaves L2.
  double load(double at, std::uint64_t sector);

  [[nodiscard]] std::uint64_t from_dram() const noexcept { return from_dram_; }

 private:
  const ClockConstants& constants_;
  SectorCache l2_;
  double sms_;
  bool is_warm_;
  SharedServer l2_server_;
  SharedServer dram_server_;
  std::uint64_t from_dram_ = 0;
};

/// When an access is done.
struct AccessTimes {
  double operands = 0;  ///< its registers may be written
  double done = 0;      ///< its results are there; of a store: it has left the SM
};

/// The loads and stores of one SM.
class SmMemory {
 public:
  SmMemory(const ClockConstants& constants, double l1_bytes, DeviceMemory& device);

  [[nodiscard]] AccessTimes access(double at, const ClockOperation& operation,
                                   const TraceAccess& access,
                                   std::span<const std::uint64_t> sectors);
  /// The cycle from which on another access is taken: a short queue lies before the unit.
  [[nodiscard]] double accepts_from() const noexcept { return unit_.free() - k_queue_cycles; }

  [[nodiscard]] const SectorCache& l1() const noexcept { return l1_; }
  [[nodiscard]] std::uint64_t sectors_from_l2() const noexcept { return sectors_from_l2_; }

 private:
  static constexpr double k_queue_cycles = 16;

  [[nodiscard]] double request(double at);
  [[nodiscard]] double load_sector(double at, std::uint64_t sector);

  const ClockConstants& constants_;
  DeviceMemory& device_;
  SectorCache l1_;
  Server unit_;                    ///< tags and data of L1, banks of shared memory
  SharedServer port_;              ///< sectors that come from L2
  Server requests_;                ///< and those that go there, loads that miss and stores
  std::vector<double> in_flight_;  ///< when each of the last misses came, in a ring
  std::size_t next_miss_ = 0;
  std::uint64_t sectors_from_l2_ = 0;
};

/// The instructions' way to the partitions of one SM.
class CodePath {
 public:
  static constexpr std::uint32_t k_line_operations = 8;  ///< 128 bytes

  /// `is_in_l2`: all of the kernel's code is; else it comes from DRAM.
  CodePath(const ClockConstants& constants, std::int64_t partitions, bool is_in_l2);

  /// The cycle at which line `line` of the code can be issued from in a partition that asks for it
  /// at `at`.
  [[nodiscard]] double fetch(double at, std::size_t partition, std::uint64_t line);

 private:
  [[nodiscard]] double to_l1(double at, std::uint64_t line);
  [[nodiscard]] double to_l0(double at, std::size_t partition, std::uint64_t line);

  const ClockConstants& constants_;
  double l2_cycles_a_line_;
  SectorCache l1_;
  std::vector<SectorCache> l0_;
  std::vector<Server> l1_servers_;  ///< a partition's
  SharedServer l2_server_;          ///< the SM's
};

}  // namespace spjit
