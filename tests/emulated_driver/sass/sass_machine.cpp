#include "emulated_driver/sass/sass_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "emulated_driver/program_error.hpp"
#include "emulated_driver/sass/warp.hpp"
#include "sass/launch_constants.hpp"

namespace spjit::emulated {

namespace {

// A launch of more instructions of warps is taken for one that never ends.
constexpr std::uint64_t k_most_instructions = 2'000'000'000;

// Hopper's blocks have 1 KiB of shared memory that is the driver's.
constexpr std::uint64_t k_reserved_shared_bytes = 1024;
constexpr int k_first_arch_with_reserve = 90;

template <class Value>
void put(ConstantBanks& banks, std::uint64_t offset, const Value& value) {
  std::array<std::uint8_t, sizeof(Value)> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  banks.write(0, offset, bytes);
}

ConstantBanks banks_of(const SassProgram& program, const SassKernel& kernel,
                       const SassLaunch& launch) {
  ConstantBanks banks = kernel.constants;
  put(banks, sass::k_block_constants, launch.shape.block);
  put(banks, sass::k_grid_constants, launch.shape.grid);
  put(banks, sass::k_shared_window_constant, k_shared_window);
  put(banks, sass::k_local_window_constant, k_local_window);
  put(banks, sass::k_stack_constant, static_cast<std::uint32_t>(k_stack_end));
  if (program.arch >= 80) {
    put(banks, sass::descriptor_constant(program.arch), k_memory_descriptor);
  }
  const auto base = static_cast<std::uint64_t>(kernel.info.parameter_base);
  banks.write(0, base, launch.parameters);
  return banks;
}

/// The warps of one block, and the barriers that they wait at.
class BlockRun {
 public:
  explicit BlockRun(SassBlock& block) : block_(block) {}

  std::uint64_t run(std::uint64_t budget) {
    std::uint64_t executed = 0;
    const std::uint32_t warps = (block_.threads + k_lanes - 1) / k_lanes;
    for (std::uint32_t i = 0; i < warps; ++i) {
      auto warp = std::make_unique<Warp>(block_, i);
      executed += advance(*warp, budget - executed);
      if (warp->state() == WarpState::exited) {
        ++exited_;
      } else {
        warps_.push_back(std::move(warp));
      }
    }
    while (!warps_.empty()) {
      for (Warp* warp : released()) {
        warp->release();
        executed += advance(*warp, budget - executed);
      }
      const std::size_t before = warps_.size();
      std::erase_if(warps_, [](const auto& warp) { return warp->state() == WarpState::exited; });
      exited_ += static_cast<std::uint32_t>(before - warps_.size());
    }
    return executed;
  }

 private:
  std::uint64_t advance(Warp& warp, std::uint64_t budget) const {
    const std::uint64_t executed = warp.run(budget);
    if (warp.state() == WarpState::running) {
      throw ProgramError(FaultKind::timeout,
                         fmt::format("{} runs for more than {} instructions; an endless loop?",
                                     block_.kernel->info.name, k_most_instructions));
    }
    return executed;
  }

  /// The warps of one barrier that all it expects have reached; called when none can run. Barriers
  /// take turns, so that what uses one cannot finish before what uses another begins.
  std::vector<Warp*> released() {
    std::map<std::uint32_t, std::vector<Warp*>> barriers;
    for (const auto& warp : warps_) barriers[warp->barrier().number].push_back(warp.get());
    auto next = barriers.upper_bound(released_);
    for (std::size_t tried = 0; tried < barriers.size(); ++tried, ++next) {
      if (next == barriers.end()) next = barriers.begin();
      const auto& [number, warps] = *next;
      // A barrier counts warps: a part of one as a whole.
      const std::size_t threads = warps.size() * k_lanes;
      const std::uint32_t expected = expected_threads(*warps.front());
      for (const Warp* warp : warps) {
        if (expected_threads(*warp) != expected) fail(*warp, "warps expect different numbers");
      }
      if (threads > expected) fail(*warps.front(), "more threads wait than are expected");
      if (threads != expected) continue;
      released_ = number;
      return warps;
    }
    const auto& [number, warps] = *barriers.begin();
    fail(*warps.front(),
         fmt::format("{} warps wait at barrier {}, {} elsewhere, and {} have exited", warps.size(),
                     number, warps_.size() - warps.size(), exited_));
  }

  [[nodiscard]] std::uint32_t expected_threads(const Warp& warp) const {
    const std::uint32_t all = (block_.threads + k_lanes - 1) / k_lanes * k_lanes;
    return warp.barrier().threads == 0 ? all : warp.barrier().threads;
  }

  [[noreturn]] void fail(const Warp& warp, const std::string& what) const {
    const SassProgram& program = *block_.program;
    const std::uint32_t at = warp.barrier().operation;
    throw ProgramError(
        FaultKind::illegal_barrier,
        fmt::format("{}: '{}': {} (warp {} of block {},{},{} in {})", program.place_text(at),
                    to_text(program.operations[at].instruction), what, warp.index(),
                    block_.index[0], block_.index[1], block_.index[2], block_.kernel->info.name));
  }

  SassBlock& block_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::uint32_t exited_ = 0;
  std::uint32_t released_ = 0;  ///< the last barrier
};

std::uint64_t threads_of(const LaunchShape& shape) {
  return std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
}

void check_shape(const SassKernel& kernel, const LaunchShape& shape) {
  const auto allowed = static_cast<std::uint64_t>(kernel.info.max_threads);
  if (allowed != 0 && threads_of(shape) > allowed) {
    throw ProgramError(FaultKind::launch_out_of_range,
                       fmt::format("{}: {} threads a block, but it was compiled for {}",
                                   kernel.info.name, threads_of(shape), allowed));
  }
}

SassBlock block_of(const SassProgram& program, const SassKernel& kernel, const SassLaunch& launch) {
  SassBlock block;
  block.program = &program;
  block.kernel = &kernel;
  block.shape = launch.shape;
  block.observer = launch.observer;
  block.threads = static_cast<std::uint32_t>(threads_of(launch.shape));  // at most 1024
  block.shared_begin = program.arch >= k_first_arch_with_reserve ? k_reserved_shared_bytes : 0;
  return block;
}

}  // namespace

LaunchStatistics run_sass(const SassProgram& program, const SassKernel& kernel,
                          const SassLaunch& launch, GlobalMemory& memory) {
  check_shape(kernel, launch.shape);
  const ConstantBanks banks = banks_of(program, kernel, launch);
  SassBlock block = block_of(program, kernel, launch);
  block.memory = &memory;
  block.constants = &banks;
  const std::uint64_t shared_bytes = block.shared_begin +
                                     static_cast<std::uint64_t>(kernel.info.static_shared_bytes) +
                                     launch.shape.dynamic_shared_bytes;
  LaunchStatistics statistics;
  std::uint64_t executed = 0;
  const auto& [gx, gy, gz] = launch.shape.grid;
  for (std::uint32_t z = 0; z < gz; ++z) {
    for (std::uint32_t y = 0; y < gy; ++y) {
      for (std::uint32_t x = 0; x < gx; ++x) {
        block.index = {x, y, z};
        block.shared.reset(shared_bytes);
        executed += BlockRun(block).run(k_most_instructions - executed);
      }
    }
  }
  statistics.instructions = executed * k_lanes;
  return statistics;
}

}  // namespace spjit::emulated
