#include "clock/cubin_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "base/arithmetic.hpp"
#include "clock/clock_program.hpp"
#include "clock/warp_walker.hpp"
#include "runtime/cuda/occupancy.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr double k_kib = 1024;
constexpr std::int64_t k_sampled_walks = 16;
/// SMs take turns of as many cycles: what they ask of L2 comes about in its order.
constexpr double k_turn_cycles = 24;
/// Of the SMs, by which each round of blocks begins further on: no small number of rounds comes
/// back.
constexpr double k_golden_section = 0.618;

std::int64_t blocks_of(const ClockLaunch& launch) {
  return checked_multiply(checked_multiply(launch.grid[0], launch.grid[1], "blocks of a launch"),
                          launch.grid[2], "blocks of a launch");
}

std::array<std::uint32_t, 3> block_index(const ClockLaunch& launch, std::int64_t block) {
  const std::int64_t x = launch.grid[0];
  const std::int64_t y = launch.grid[1];
  return {static_cast<std::uint32_t>(block % x), static_cast<std::uint32_t>(block / x % y),
          static_cast<std::uint32_t>(block / x / y)};
}

/// L1 gets what shared memory leaves.
double l1_bytes_of(const ClockConstants& constants, double shared_bytes) {
  double carved = constants.shared_carveouts_kib.back();
  for (const double kib : constants.shared_carveouts_kib) {
    if (kib * k_kib < shared_bytes) continue;
    carved = kib;
    break;
  }
  return std::clamp(constants.unified_kib - carved, 0.0, constants.most_l1_kib) * k_kib;
}

/// The launch on the SMs that are modelled.
class LaunchModel {
 public:
  LaunchModel(const ClockProgram& program, const ClockLaunch& launch, const CudaDeviceInfo& device,
              const ClockConstants& constants)
      : launch_(launch),
        walked_{program, program.kernel(launch.kernel), launch.grid, launch.block,
                launch.parameters},
        device_(device),
        constants_(constants) {
    const CubinKernel& kernel = walked_.kernel.info;
    const std::int64_t threads = walked_.threads();
    if (blocks_of(launch) < 1 || threads < 1) {
      throw InvalidArgument("a launch without blocks or threads has no time");
    }
    const Occupancy held = occupancy(device, {.threads = threads,
                                              .registers_per_thread = kernel.registers,
                                              .static_shared_bytes = kernel.static_shared_bytes,
                                              .dynamic_shared_bytes = launch.dynamic_shared_bytes});
    held_ = held.active_blocks;
    if (held_ < 1) {
      throw NotSupported(fmt::format("{} holds no block of {} threads with {} registers",
                                     device.name(), threads, kernel.registers));
    }
    shared_bytes_ = as_double(held.active_blocks * held.allocated_shared_bytes);
  }

  ModelledTime run(const ClockLimits& limits, const Cancellation& cancel) {
    choose_sms(limits, cancel);
    waits_ = limits.waits_by_register ? waits_by_register(walked_.program)
                                      : waits_by_scoreboard(walked_.program);
    const auto code = static_cast<std::int64_t>(walked_.program.code_bytes);
    const bool is_warm = launch_.touched_bytes + code <= device_.l2_bytes;
    DeviceMemory memory(constants_, as_double(device_.l2_bytes), modelled_sms_, is_warm);
    const SmModel::Parts parts{constants_,
                               walked_.program,
                               memory,
                               device_.sub_partitions,
                               l1_bytes_of(constants_, shared_bytes_),
                               code <= device_.l2_bytes,
                               limits.instructions_at_hand,
                               *waits_};
    for (std::int64_t i = 0; i < modelled_sms_; ++i) {
      sms_.push_back(std::make_unique<SmModel>(parts));
    }
    fill();
    advance(cancel);
    return result();
  }

 private:
  /// Estimates the launch's instructions from a few of its warps.
  void choose_sms(const ClockLimits& limits, const Cancellation& cancel) {
    const std::int64_t blocks = blocks_of(launch_);
    const std::int64_t walks = std::min(blocks, k_sampled_walks);
    double steps = 0;
    for (std::int64_t i = 0; i < walks; ++i) {
      cancel.check();
      const std::int64_t block = i * blocks / walks;
      steps += static_cast<double>(
          walk_warp(walked_, block_index(launch_, block), walked_.warps() / 2).steps.size());
    }
    const double all = steps / as_double(walks) * as_double(blocks) * walked_.warps();
    const double share = std::min(1.0, limits.most_steps / std::max(all, 1.0));
    modelled_sms_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(share * as_double(device_.sms)), 1, device_.sms);
    // SMs are chosen far apart, with the blocks that they would have if all ended at once.
    places_.assign(to_size(device_.sms), modelled_sms_);
    for (std::int64_t i = 0; i < modelled_sms_; ++i) {
      places_[to_size(i * device_.sms / modelled_sms_)] = i;
    }
    for (std::int64_t block = 0; block < blocks; ++block) {
      if (place_of(block) < modelled_sms_) queue_.push_back(block);
    }
  }

  /// The number of its SM among those that are modelled, or theirs.
  [[nodiscard]] std::int64_t place_of(std::int64_t block) const {
    return places_[to_size(sm_of_block(block, device_.sms, constants_.block_order))];
  }

  void start(SmModel& sm, double at) {
    const std::int64_t block = queue_[next_++];
    std::vector<WarpTrace> warps;
    for (std::uint32_t warp = 0; warp < walked_.warps(); ++warp) {
      warps.push_back(walk_warp(walked_, block_index(launch_, block), warp));
      const WarpTrace& trace = warps.back();
      assumptions_ += trace.assumed_branches + trace.assumed_accesses;
    }
    sm.start_block(at, std::move(warps));
  }

  [[nodiscard]] bool has_more() const { return next_ < queue_.size(); }

  /// The first wave: a block an SM, and again until they are full.
  void fill() {
    while (has_more() && queue_[next_] < held_ * device_.sms) {
      start(*sms_[to_size(place_of(queue_[next_]))], constants_.launch_cycles);
    }
  }

  void advance(const Cancellation& cancel) {
    using Entry = std::pair<double, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> turns;
    const auto push = [&](std::size_t i) {
      if (const std::optional<double> next = sms_[i]->next()) turns.emplace(*next, i);
    };
    for (std::size_t i = 0; i < sms_.size(); ++i) push(i);
    std::size_t count = 0;
    constexpr std::size_t checked_every = 1024;
    while (!turns.empty()) {
      if (count++ % checked_every == 0) cancel.check();
      const auto [begin, index] = turns.top();
      turns.pop();
      SmModel& sm = *sms_[index];
      while (const std::optional<double> next = sm.next()) {
        if (*next > begin + k_turn_cycles) break;
        if (sm.issue() && has_more()) start(sm, sm.ended() + constants_.block_cycles);
      }
      push(index);
    }
  }

  ModelledTime result() {
    ModelledTime time;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    for (const std::unique_ptr<SmModel>& sm : sms_) {
      time.cycles = std::max(time.cycles, sm->ended());
      time.schedulers += sm->cycles();
      hits += sm->memory().l1().hits();
      misses += sm->memory().l1().misses();
      time.bytes_from_l2 += static_cast<double>(sm->memory().sectors_from_l2()) * k_sector_bytes;
    }
    SchedulerCycles& spent = time.schedulers;
    time.instructions = spent.issued;
    const double all = time.cycles * as_double(device_.sub_partitions * modelled_sms_);
    spent.empty = std::max(0.0, all - spent.issued - spent.unit - spent.stall - spent.memory -
                                    spent.latency - spent.fetch);
    const std::array<double, 7> shares = {spent.issued,  spent.unit,  spent.stall, spent.memory,
                                          spent.latency, spent.fetch, spent.empty};
    time.bound = static_cast<ClockBound>(std::ranges::max_element(shares) - shares.begin());
    time.us = time.cycles / constants_.mhz_of(device_.card);
    time.modelled_sms = modelled_sms_;
    time.modelled_blocks = std::ssize(queue_);
    time.blocks = blocks_of(launch_);
    if (hits + misses > 0)
      time.l1_hits = static_cast<double>(hits) / static_cast<double>(hits + misses);
    time.assumptions = assumptions_;
    return time;
  }

  const ClockLaunch& launch_;
  WalkedLaunch walked_;
  const CudaDeviceInfo& device_;
  const ClockConstants& constants_;
  std::int64_t held_ = 0;  ///< blocks, by an SM at once
  double shared_bytes_ = 0;
  std::int64_t modelled_sms_ = 0;
  std::vector<std::int64_t> places_;  ///< of each SM among the modelled ones; their number: none
  std::vector<std::int64_t> queue_;   ///< blocks of the SMs that are modelled
  std::size_t next_ = 0;
  std::vector<std::unique_ptr<SmModel>> sms_;
  std::int64_t assumptions_ = 0;
  std::unique_ptr<const ResultWaits> waits_;
};

}  // namespace

std::int64_t sm_of_block(std::int64_t block, std::int64_t sms, BlockOrder order) noexcept {
  if (order == BlockOrder::same) return block % sms;
  const auto step = static_cast<std::int64_t>(k_golden_section * as_double(sms));
  return (block + block / sms % sms * step) % sms;
}

std::string_view to_string(ClockBound bound) noexcept {
  constexpr std::array<std::string_view, 7> names = {"issue",   "unit",  "stall", "memory",
                                                     "latency", "fetch", "tail"};
  return names[static_cast<std::size_t>(bound)];
}

ModelledTime modelled_time(std::span<const std::byte> cubin, const ClockLaunch& launch,
                           const CudaDeviceInfo& device, const ClockConstants& constants,
                           const ClockLimits& limits) {
  const ClockProgram program = load_clock_program(cubin);
  return LaunchModel(program, launch, device, constants).run(limits, limits.cancel);
}

}  // namespace spjit
