#include "clock/sm_model.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace spjit {
namespace {

constexpr std::size_t index_of(ClockUnit unit) { return static_cast<std::size_t>(unit); }

bool is_memory_unit(ClockUnit unit) {
  return unit == ClockUnit::global || unit == ClockUnit::local || unit == ClockUnit::shared;
}

}  // namespace

SchedulerCycles& SchedulerCycles::operator+=(const SchedulerCycles& other) {
  issued += other.issued;
  unit += other.unit;
  stall += other.stall;
  memory += other.memory;
  latency += other.latency;
  fetch += other.fetch;
  empty += other.empty;
  return *this;
}

SmModel::SmModel(const Parts& parts)
    : constants_(parts.constants),
      program_(parts.program),
      memory_(parts.constants, parts.l1_bytes, parts.device),
      code_(parts.constants, parts.partitions, parts.code_in_l2),
      in_turn_(parts.constants.warp_order == WarpOrder::in_turn),
      instructions_at_hand_(parts.instructions_at_hand),
      waits_(parts.waits),
      partitions_(static_cast<std::size_t>(parts.partitions)) {
  intervals_[index_of(ClockUnit::fp32)] = constants_.fp32_interval;
  intervals_[index_of(ClockUnit::integer)] = constants_.integer_interval;
  intervals_[index_of(ClockUnit::half)] = constants_.half_interval;
  intervals_[index_of(ClockUnit::special)] = constants_.special_interval;
  intervals_[index_of(ClockUnit::global)] = constants_.memory_interval;
  intervals_[index_of(ClockUnit::local)] = constants_.memory_interval;
  intervals_[index_of(ClockUnit::shared)] = constants_.memory_interval;
  intervals_[index_of(ClockUnit::constant)] = constants_.memory_interval;
  intervals_[index_of(ClockUnit::uniform)] = constants_.uniform_interval;
  intervals_[index_of(ClockUnit::control)] = 1;
}

const ClockOperation& SmModel::operation_of(const Warp& warp) const {
  return program_.operations[warp.trace.steps[warp.at].operation];
}

void SmModel::fetch_next(Warp& warp, std::size_t partition, double at) {
  const std::uint64_t line = warp.trace.steps[warp.at].operation / CodePath::k_line_operations;
  if (line == warp.line || instructions_at_hand_) return;
  warp.line = line;
  warp.fetched = code_.fetch(at, partition, line);
}

void SmModel::set_eligible(Warp& warp) const {
  warp.eligible = warp.ready;
  warp.reason = Reason::stall;
  const std::uint32_t operation = warp.trace.steps[warp.at].operation;
  if (const auto wait = waits_.wait_of(warp.results, operation, warp.ready)) {
    warp.eligible = wait->until;
    warp.reason = wait->is_memory ? Reason::memory : Reason::latency;
  }
  if (warp.fetched > warp.eligible) {
    warp.eligible = warp.fetched;
    warp.reason = Reason::fetch;
  }
}

double SmModel::earliest(const Partition& partition, const Warp& warp) const {
  const ClockUnit unit = operation_of(warp).unit;
  double at = std::max({warp.eligible, partition.now, partition.unit_free[index_of(unit)]});
  if (is_memory_unit(unit)) at = std::max(at, memory_.accepts_from());
  return at;
}

/// Of those that can be issued first: in turn, the one after the last one; or else the last one, or
/// the oldest.
void SmModel::choose(std::size_t index) {
  Partition& partition = partitions_[index];
  partition.has_next = false;
  partition.next = std::numeric_limits<double>::infinity();
  const std::size_t count = partition.warps.size();
  std::size_t first = 0;
  while (in_turn_ && first < count && partition.warps[first]->age <= partition.last) ++first;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = first + k < count ? first + k : first + k - count;
    const Warp& warp = *partition.warps[i];
    if (warp.is_waiting) continue;
    const double at = earliest(partition, warp);
    const bool goes_on = !in_turn_ && warp.age == partition.last && at <= partition.next;
    if (at < partition.next || goes_on) {
      partition.next = at;
      partition.chosen = i;
      partition.has_next = true;
    }
  }
}

void SmModel::start_block(double at, std::vector<WarpTrace> warps) {
  auto block = std::make_shared<Block>();
  block->stored = at;
  for (WarpTrace& trace : warps) {
    if (trace.steps.empty()) continue;
    const auto emptiest = std::ranges::min_element(
        partitions_, {}, [](const Partition& partition) { return partition.warps.size(); });
    const auto index = static_cast<std::size_t>(emptiest - partitions_.begin());
    auto warp = std::make_unique<Warp>();
    warp->trace = std::move(trace);
    warp->block = block;
    warp->age = ++ages_;
    warp->ready = at;
    warp->results = waits_.no_results();
    fetch_next(*warp, index, at);
    set_eligible(*warp);
    emptiest->warps.push_back(std::move(warp));
    ++block->live;
  }
  if (block->live == 0) {
    ended_ = std::max(ended_, at);
    return;
  }
  ++running_;
  for (std::size_t i = 0; i < partitions_.size(); ++i) choose(i);
}

std::optional<double> SmModel::next() const {
  double first = std::numeric_limits<double>::infinity();
  for (const Partition& partition : partitions_) {
    if (partition.has_next) first = std::min(first, partition.next);
  }
  if (first == std::numeric_limits<double>::infinity()) return std::nullopt;
  return first;
}

void SmModel::account(Partition& partition, const Warp& warp, double at) {
  cycles_.issued += 1;
  const double gap = at - partition.now;
  if (gap <= 0) return;
  // What the warp waited for longest; the rest was a busy unit.
  const double waited = std::clamp(warp.eligible - partition.now, 0.0, gap);
  cycles_.unit += gap - waited;
  switch (warp.reason) {
    case Reason::stall:
      cycles_.stall += waited;
      break;
    case Reason::memory:
      cycles_.memory += waited;
      break;
    case Reason::latency:
      cycles_.latency += waited;
      break;
    case Reason::fetch:
      cycles_.fetch += waited;
      break;
  }
}

void SmModel::execute(Partition& partition, Warp& warp, const ClockOperation& operation,
                      double at) {
  const std::size_t unit = index_of(operation.unit);
  partition.unit_free[unit] = at + intervals_[unit];
  const TraceStep& step = warp.trace.steps[warp.at];
  warp.ready = at + waits_.issue_distance(step.operation);
  AccessTimes times{at + constants_.operands_latency, at + constants_.special_latency};
  if (const auto latency = waits_.fixed_latency(step.operation)) times.done = at + *latency;
  if (operation.unit == ClockUnit::constant) times.done = at + constants_.constant_latency;
  const bool is_access = is_memory_unit(operation.unit) && step.access != k_no_access;
  if (is_access) {
    const TraceAccess& access = warp.trace.accesses[step.access];
    const std::span<const std::uint64_t> sectors(warp.trace.sectors.data() + access.first,
                                                 access.count);
    times = memory_.access(at, operation, access, sectors);
    if (operation.is_store) warp.block->stored = std::max(warp.block->stored, times.done);
  }
  waits_.add(warp.results, step.operation, times, is_access);
}

void SmModel::release(const Block* block, double at) {
  for (Partition& partition : partitions_) {
    for (const std::unique_ptr<Warp>& warp : partition.warps) {
      if (warp->block.get() != block || !warp->is_waiting) continue;
      warp->is_waiting = false;
      warp->ready = std::max(warp->ready, at);
      set_eligible(*warp);
      if (warp->eligible == at) warp->reason = Reason::latency;
    }
  }
}

void SmModel::reach_barrier(Warp& warp, double at) {
  warp.is_waiting = true;
  Block& block = *warp.block;
  if (++block.waiting < block.live) return;
  block.waiting = 0;
  release(&block, at + constants_.barrier_latency);
}

bool SmModel::end_warp(std::size_t partition, std::size_t index, double at) {
  auto& warps = partitions_[partition].warps;
  const std::shared_ptr<Block> block = warps[index]->block;
  warps.erase(warps.begin() + static_cast<std::ptrdiff_t>(index));
  if (--block->live == 0) {
    --running_;
    ended_ = std::max({ended_, at, block->stored});
    return true;
  }
  if (block->waiting > 0 && block->waiting == block->live) {
    block->waiting = 0;
    release(block.get(), at + constants_.barrier_latency);
  }
  return false;
}

/// Of partitions that wait for the memory unit, the one goes first whose last turn is the oldest.
bool SmModel::issue() {
  const auto first = std::ranges::min_element(partitions_, {}, [](const Partition& partition) {
    const double next =
        partition.has_next ? partition.next : std::numeric_limits<double>::infinity();
    return std::pair(next, partition.turn);
  });
  const auto index = static_cast<std::size_t>(first - partitions_.begin());
  Partition& partition = *first;
  Warp& warp = *partition.warps[partition.chosen];
  const double at = earliest(partition, warp);
  if (at > partition.next) {  // another partition has filled the unit's queue meanwhile
    choose(index);
    return false;
  }
  const ClockOperation& operation = operation_of(warp);
  account(partition, warp, at);
  execute(partition, warp, operation, at);
  if (is_memory_unit(operation.unit)) partition.turn = ++turns_;
  partition.now = at + 1;
  partition.last = warp.age;
  ++warp.at;
  bool has_ended = false;
  if (warp.at == warp.trace.steps.size()) {
    has_ended = end_warp(index, partition.chosen, at + 1);
  } else {
    fetch_next(warp, index, at + 1);
    set_eligible(warp);
    if (operation.instruction.opcode == sass::Opcode::bar) reach_barrier(warp, at);
  }
  if (has_ended || operation.instruction.opcode == sass::Opcode::bar ||
      operation.instruction.opcode == sass::Opcode::exit) {
    for (std::size_t i = 0; i < partitions_.size(); ++i) choose(i);
  } else {
    choose(index);
  }
  return has_ended;
}

}  // namespace spjit
