#include "emulated_driver/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "emulated_driver/thread.hpp"

namespace spjit::emulated {

namespace {

// A launch of more is taken for one that never ends.
constexpr std::uint64_t k_max_instructions = 20'000'000'000;

using Slots = std::array<std::uint64_t, special_slots>;

std::uint32_t threads_of(const LaunchShape& shape) {
  return shape.block[0] * shape.block[1] * shape.block[2];  // at most 1024: Driver::check_launch()
}

// More than 2^64 of them are no grid: each thread takes an instruction or more.
std::uint64_t blocks_of(const Function& entry, const LaunchShape& shape) {
  std::uint64_t blocks = 1;
  for (const std::uint32_t extent : shape.grid) {
    if (__builtin_mul_overflow(blocks, std::uint64_t{extent}, &blocks)) {
      blocks = k_max_instructions;
    }
  }
  if (blocks >= k_max_instructions / threads_of(shape)) {
    throw ProgramError(FaultKind::timeout,
                       fmt::format("{}: {} blocks of {} threads are too many to run", entry.name,
                                   blocks, threads_of(shape)));
  }
  return blocks;
}

Slots slots_of(const LaunchShape& shape, std::uint32_t thread, std::uint64_t block) {
  const auto& [bx, by, bz] = shape.block;
  const auto& [gx, gy, gz] = shape.grid;
  Slots slots{};
  slots[tid_x] = thread % bx;
  slots[tid_y] = thread / bx % by;
  slots[tid_z] = thread / bx / by;
  slots[ntid_x] = bx;
  slots[ntid_y] = by;
  slots[ntid_z] = bz;
  slots[ctaid_x] = block % gx;
  slots[ctaid_y] = block / gx % gy;
  slots[ctaid_z] = block / gx / gy;
  slots[nctaid_x] = gx;
  slots[nctaid_y] = gy;
  slots[nctaid_z] = gz;
  slots[laneid] = thread % k_warp;
  slots[warpid] = thread / k_warp;
  return slots;
}

// The threads of one block. What a thread needs is created when it first runs and given to the next
// one when it exits: a kernel without barriers needs one register file, however large.
class Block {
 public:
  Block(BlockContext& context, const Function& entry, const LaunchShape& shape,
        const ShadowedBytes& parameters)
      : context_(context), entry_(entry), shape_(shape), parameters_(parameters) {}

  std::uint64_t run(std::uint64_t index, std::uint64_t budget) {
    waiting_.clear();
    std::uint64_t executed = 0;
    for (std::uint32_t thread = 0; thread < context_.threads; ++thread) {
      Slots slots = slots_of(shape_, thread, index);
      slots[dynamic_shared] = entry_.shared_bytes;
      std::unique_ptr<Thread> state = take_storage();
      state->start(context_, entry_, slots.data(), parameters_);
      executed += advance(thread, std::move(state), budget - executed);
    }
    while (!waiting_.empty()) {
      for (const std::uint32_t thread : released_threads()) {
        std::unique_ptr<Thread> state = std::move(waiting_.at(thread));
        waiting_.erase(thread);
        state->release();
        executed += advance(thread, std::move(state), budget - executed);
      }
    }
    return executed;
  }

 private:
  std::unique_ptr<Thread> take_storage() {
    if (spare_.empty()) {
      return std::make_unique<Thread>();
    }
    std::unique_ptr<Thread> taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
  }

  std::uint64_t advance(std::uint32_t thread, std::unique_ptr<Thread> state, std::uint64_t budget) {
    const std::uint64_t executed = state->run(budget);
    if (state->state() == ThreadState::running) {
      throw ProgramError(FaultKind::timeout,
                         fmt::format("{} runs for more than {} instructions; an endless loop?",
                                     entry_.name, k_max_instructions));
    }
    if (state->state() == ThreadState::waiting) {
      waiting_.emplace(thread, std::move(state));
    } else {
      spare_.push_back(std::move(state));
    }
    return executed;
  }

  // The threads of one barrier that all it expects have reached; called when none can run. Barriers
  // take turns, so that what uses one cannot finish before what uses another begins.
  std::vector<std::uint32_t> released_threads() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> barriers;
    for (const auto& [thread, state] : waiting_) {
      barriers[state->wait().barrier].push_back(thread);
    }
    auto next = barriers.upper_bound(released_);
    for (std::size_t tried = 0; tried < barriers.size(); ++tried, ++next) {
      if (next == barriers.end()) next = barriers.begin();
      const auto& [barrier, threads] = *next;
      const BarrierWait& first = waiting_.at(threads.front())->wait();
      check_agreement(threads);
      if (threads.size() > first.expected) {
        fail(first,
             fmt::format("{} threads wait, {} are expected", threads.size(), first.expected));
      }
      if (threads.size() == first.expected) {
        released_ = barrier;
        return threads;
      }
    }
    const auto& [barrier, threads] = *barriers.begin();
    const BarrierWait& first = waiting_.at(threads.front())->wait();
    fail(first, fmt::format("{} of {} threads wait; {} of the block's {} have exited and {} wait "
                            "elsewhere",
                            threads.size(), first.expected, context_.threads - waiting_.size(),
                            context_.threads, waiting_.size() - threads.size()));
  }

  // Threads that wait at one barrier expect the same number, and those of a warp are at the same
  // instruction: bar.sync is .aligned.
  void check_agreement(const std::vector<std::uint32_t>& threads) const {
    for (std::size_t i = 1; i < threads.size(); ++i) {
      const BarrierWait& one = waiting_.at(threads[i - 1])->wait();
      const BarrierWait& other = waiting_.at(threads[i])->wait();
      const bool same_warp = threads[i - 1] / k_warp == threads[i] / k_warp;
      if (one.expected != other.expected ||
          (same_warp && one.is_aligned && one.line != other.line)) {
        fail(one, fmt::format("thread {} waits there, thread {} on line {}: '{}'", threads[i - 1],
                              threads[i], other.line, context_.program->line_text(other.line)));
      }
    }
  }

  [[noreturn]] void fail(const BarrierWait& wait, const std::string& what) const {
    throw ProgramError(FaultKind::illegal_barrier,
                       fmt::format("line {}: '{}': {} (in {})", wait.line,
                                   context_.program->line_text(wait.line), what, entry_.name));
  }

  BlockContext& context_;
  const Function& entry_;
  const LaunchShape& shape_;
  const ShadowedBytes& parameters_;
  std::map<std::uint32_t, std::unique_ptr<Thread>> waiting_;
  std::vector<std::unique_ptr<Thread>> spare_;
  std::uint32_t released_ = 0;  // the last barrier
};

void check_shape(const Function& entry, const LaunchShape& shape) {
  const std::uint64_t threads =
      std::uint64_t{shape.block[0]} * shape.block[1] * std::uint64_t{shape.block[2]};
  const std::uint64_t allowed =
      std::uint64_t{entry.max_block[0]} * entry.max_block[1] * std::uint64_t{entry.max_block[2]};
  if (allowed != 0 && threads > allowed) {
    throw ProgramError(FaultKind::launch_out_of_range,
                       fmt::format("{}: {} threads a block, but its .maxntid allows {}", entry.name,
                                   threads, allowed));
  }
  if (entry.exact_block[0] != 0 && entry.exact_block != shape.block) {
    throw ProgramError(
        FaultKind::launch_out_of_range,
        fmt::format("{}: a block of {} x {} x {}, but its .reqntid is {} x {} x {}", entry.name,
                    shape.block[0], shape.block[1], shape.block[2], entry.exact_block[0],
                    entry.exact_block[1], entry.exact_block[2]));
  }
}

}  // namespace

LaunchStatistics run_grid(const Program& program, const Function& entry, const LaunchShape& shape,
                          std::span<const std::uint8_t> parameters, GlobalMemory& memory) {
  check_shape(entry, shape);
  ShadowedBytes param(parameters.size());
  param.write(0, parameters);
  BlockContext context{&program, &memory, {}, threads_of(shape)};
  Block block(context, entry, shape, param);

  LaunchStatistics statistics;
  const std::uint64_t blocks = blocks_of(entry, shape);
  for (std::uint64_t index = 0; index < blocks; ++index) {
    context.shared.reset(std::uint64_t{entry.shared_bytes} + shape.dynamic_shared_bytes);
    statistics.instructions += block.run(index, k_max_instructions - statistics.instructions);
  }
  return statistics;
}

}  // namespace spjit::emulated
