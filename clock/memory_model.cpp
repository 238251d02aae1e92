#include "clock/memory_model.hpp"

#include <algorithm>
#include <utility>

namespace spjit {
namespace {

constexpr std::uint64_t k_sectors = SectorCache::k_sectors_a_line;

}  // namespace

std::size_t SharedServer::first_with_room(std::size_t slot) {
  std::size_t found = slot;
  while (true) {
    if (found >= slots_.size()) slots_.resize(found + 1);
    if (slots_[found].next == 0) break;
    found = slots_[found].next;
  }
  while (slot != found) slot = std::exchange(slots_[slot].next, found);
  return found;
}

double SharedServer::serve(double at, double cycles) {
  std::size_t slot = first_with_room(static_cast<std::size_t>(std::max(0.0, at) / k_slot_cycles));
  const double begin = static_cast<double>(slot) * k_slot_cycles;
  slots_[slot].used = std::max(at - begin, slots_[slot].used) + cycles;
  const double served = begin + slots_[slot].used;
  // What a slot cannot serve is for the next ones.
  while (slots_[slot].used >= k_slot_cycles) {
    const double left = slots_[slot].used - k_slot_cycles;
    slots_[slot].used = k_slot_cycles;
    slots_[slot].next = slot + 1;
    slot = first_with_room(slot + 1);
    slots_[slot].used += left;
  }
  return served;
}

double DeviceMemory::load(double at, std::uint64_t sector) {
  const double served = l2_server_.serve(at, k_sector_bytes / (constants_.l2_bytes_a_cycle * sms_));
  if (is_warm_) return served;
  if (const double ready = l2_.find(sector); ready >= 0) return std::max(served, ready);
  ++from_dram_;
  const double came =
      dram_server_.serve(served, k_sector_bytes / (constants_.dram_bytes_a_cycle * sms_)) +
      constants_.dram_latency - constants_.l2_latency;
  l2_.fill(sector, at, came);
  return came;
}

SmMemory::SmMemory(const ClockConstants& constants, double l1_bytes, DeviceMemory& device)
    : constants_(constants),
      device_(device),
      l1_(l1_bytes, static_cast<std::uint64_t>(constants.l1_sets)),
      in_flight_(std::max<std::size_t>(static_cast<std::size_t>(constants.misses_in_flight), 1)) {}

/// When a request for a sector leaves the SM. A few may wait for that, then L1's unit does.
double SmMemory::request(double at) {
  const double left = requests_.serve(at, k_sector_bytes / constants_.request_bytes_a_cycle);
  unit_.block_until(left - k_queue_cycles);
  return left;
}

double SmMemory::load_sector(double at, std::uint64_t sector) {
  const double port_cycles = k_sector_bytes / constants_.l2_port_bytes_a_cycle;
  if (const double ready = l1_.find(sector); ready >= 0) {
    const double hit = at + constants_.l1_latency;
    if (ready <= hit) return hit;
    // One that is on its way comes through the port once for each that waits for it.
    return port_.serve(ready - constants_.l2_latency, port_cycles) + constants_.l2_latency;
  }
  // Where too many are on their way, the unit waits for the oldest one.
  double& oldest = in_flight_[next_miss_];
  next_miss_ = (next_miss_ + 1) % in_flight_.size();
  const double asked = l1_.room_from(sector, std::max(at, oldest));
  unit_.block_until(asked);
  const double left = device_.load(request(asked), sector);
  const double came = port_.serve(left, port_cycles) + constants_.l2_latency;
  ++sectors_from_l2_;
  oldest = came;
  l1_.fill(sector, asked, came);
  return came;
}

AccessTimes SmMemory::access(double at, const ClockOperation& operation, const TraceAccess& access,
                             std::span<const std::uint64_t> sectors) {
  AccessTimes times;
  if (operation.unit == ClockUnit::shared) {
    const double served = unit_.serve(at, access.passes);
    times.operands = served + constants_.operands_latency;
    times.done = served + constants_.shared_latency;
    return times;
  }
  const double bytes = static_cast<double>(sectors.size()) * k_sector_bytes;
  const double served = unit_.serve(at, std::max(1.0, bytes / constants_.l1_bytes_a_cycle));
  times.operands = served + constants_.operands_latency;
  if (operation.is_store) {
    times.done = served;
    for (std::size_t i = 0; i < sectors.size(); ++i) times.done = request(served);
    return times;
  }
  times.done = served + constants_.l1_latency;
  for (const std::uint64_t sector : sectors) {
    times.done = std::max(times.done, load_sector(served, sector));
  }
  return times;
}

CodePath::CodePath(const ClockConstants& constants, std::int64_t partitions, bool is_in_l2)
    : constants_(constants),
      l2_cycles_a_line_(k_line_bytes / (is_in_l2 ? constants.l2_code_bytes_a_cycle
                                                 : std::min(constants.l2_code_bytes_a_cycle,
                                                            constants.dram_bytes_a_cycle))),
      l1_(constants.l1_code_bytes),
      l0_(static_cast<std::size_t>(partitions), SectorCache(constants.l0_code_bytes)),
      l1_servers_(static_cast<std::size_t>(partitions)) {}

double CodePath::to_l1(double at, std::uint64_t line) {
  if (const double ready = l1_.find(line * k_sectors); ready >= 0) return std::max(at, ready);
  const double ready = l2_server_.serve(at, l2_cycles_a_line_) + constants_.l2_code_latency;
  l1_.fill(line * k_sectors, at, ready);
  return ready;
}

double CodePath::to_l0(double at, std::size_t partition, std::uint64_t line) {
  SectorCache& l0 = l0_[partition];
  if (const double ready = l0.find(line * k_sectors); ready >= 0) return std::max(at, ready);
  const double there = to_l1(at, line);
  // What comes from L2 comes more slowly than a partition takes it, and holds up nothing that is
  // there.
  const double left = there > at ? there
                                 : l1_servers_[partition].serve(
                                       at, k_line_bytes / constants_.l1_code_bytes_a_cycle);
  const double ready = left + constants_.l1_code_latency;
  l0.fill(line * k_sectors, at, ready);
  return ready;
}

double CodePath::fetch(double at, std::size_t partition, std::uint64_t line) {
  const double ready = to_l0(at, partition, line);
  // Code is mostly straight: the next lines are brought before they are asked for.
  const auto ahead = static_cast<std::uint64_t>(constants_.prefetched_lines);
  for (std::uint64_t i = 1; i <= ahead; ++i) static_cast<void>(to_l0(at, partition, line + i));
  return ready;
}

}  // namespace spjit
