#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "emulated_driver/access.hpp"
#include "emulated_driver/memory.hpp"
#include "emulated_driver/program.hpp"
#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

inline constexpr std::uint32_t k_warp = 32;

/// Data that the threads of a block share.
struct BlockContext {
  const Program* program = nullptr;
  GlobalMemory* memory = nullptr;
  ShadowedBytes shared;
  std::uint32_t threads = 0;
};

enum class ThreadState : std::uint8_t { running, waiting, exited };

/// A barrier that a thread waits at.
struct BarrierWait {
  std::uint32_t barrier = 0;   ///< 0..15: the block's; 16 + w: warp w's
  std::uint32_t expected = 0;  ///< threads
  std::uint32_t line = 0;
  bool is_aligned = true;  ///< a warp's threads reach it together
};

/// One thread of a kernel: an interpreter that runs until it exits or waits.
class Thread {
 public:
  /// `slots` holds special_slots - 1 values, in the order of SpecialSlot.
  void start(BlockContext& block, const Function& entry, const std::uint64_t* slots,
             const ShadowedBytes& parameters);
  /// Runs at most `budget` instructions; returns how many ran.
  std::uint64_t run(std::uint64_t budget);

  [[nodiscard]] ThreadState state() const noexcept { return state_; }
  [[nodiscard]] const BarrierWait& wait() const noexcept { return wait_; }
  void release() noexcept { state_ = ThreadState::running; }

  template <typename T>
  [[nodiscard]] T read(Operand operand) const {
    std::uint64_t bits = 0;
    if ((operand & k_constant_bit) != 0) {
      bits = constants_[operand & ~k_constant_bit];
    } else {
      if (defined_[operand] == 0) [[unlikely]] {
        fail_undefined(operand);
      }
      bits = registers_[operand];
    }
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    } else if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<double>(bits);
    } else if constexpr (std::is_same_v<T, bool>) {
      return bits != 0;
    } else {
      return static_cast<T>(bits);
    }
  }

  template <typename T>
  void write(Operand slot, T value) {
    std::uint64_t bits = 0;
    if constexpr (std::is_same_v<T, float>) {
      bits = std::bit_cast<std::uint32_t>(value);
    } else if constexpr (std::is_same_v<T, double>) {
      bits = std::bit_cast<std::uint64_t>(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      bits = value ? 1 : 0;
    } else {
      bits = static_cast<std::make_unsigned_t<T>>(value);
    }
    registers_[slot] = bits;
    defined_[slot] = 1;
  }

  /// `value` as PTX puts it into a register of `width` bytes: sign-extended if T is signed.
  template <typename T>
  void write_extended(Operand slot, T value, std::uint32_t width) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      const auto wide = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      write(slot, width >= 8 ? wide : wide & ((std::uint64_t{1} << (8 * width)) - 1));
    } else {
      write(slot, value);
    }
  }

  /// The address operand `index` of `instruction` with its displacement.
  [[nodiscard]] Address address(const Instruction& instruction, std::size_t index) const {
    return read<std::uint64_t>(instruction.operands[index]) +
           static_cast<std::uint64_t>(instruction.displacement);
  }
  /// Where `size` bytes at `address` of `space` are. Throws if they are not all there.
  [[nodiscard]] Place place(Space space, Address address, std::uint32_t size, bool for_writing);

  void jump(std::uint32_t target) noexcept { pc_ = target; }
  void call(const CallSite& site);
  void return_from_call();
  void exit() noexcept { state_ = ThreadState::exited; }
  void wait_at(const BarrierWait& wait) noexcept {
    wait_ = wait;
    state_ = ThreadState::waiting;
  }

  [[nodiscard]] const Function& function() const noexcept { return *function_; }
  [[nodiscard]] const BlockContext& block() const noexcept { return *block_; }

 private:
  struct Frame {
    const Function* function = nullptr;
    const CallSite* site = nullptr;
    std::uint32_t return_pc = 0;
    std::size_t register_base = 0;
    std::uint64_t param_base = 0;
    std::uint64_t local_base = 0;
  };

  void push_frame(const Function& function, const CallSite* site);
  void enter(const Frame& frame);
  void transfer(const Transfer& transfer, const Frame& from, const Frame& to);
  [[noreturn]] void fail_undefined(Operand operand) const;

  BlockContext* block_ = nullptr;
  const Function* function_ = nullptr;
  std::uint64_t* registers_ = nullptr;
  std::uint8_t* defined_ = nullptr;
  const std::uint64_t* constants_ = nullptr;
  std::uint32_t pc_ = 0;
  ThreadState state_ = ThreadState::exited;
  BarrierWait wait_;
  Allocation* last_allocation_ = nullptr;

  std::vector<Frame> frames_;
  std::vector<std::uint64_t> register_file_;
  std::vector<std::uint8_t> register_defined_;
  ShadowedBytes param_;
  ShadowedBytes local_;
};

}  // namespace spjit::emulated
