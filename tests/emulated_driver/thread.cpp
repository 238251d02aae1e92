#include "emulated_driver/thread.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace spjit::emulated {

namespace {

constexpr std::size_t k_max_call_depth = 256;

[[noreturn]] void fail(FaultKind kind, const std::string& message) {
  throw ProgramError(kind, message);
}

}  // namespace

void Thread::start(BlockContext& block, const Function& entry, const std::uint64_t* slots,
                   const ShadowedBytes& parameters) {
  block_ = &block;
  frames_.clear();
  register_file_.clear();
  register_defined_.clear();
  param_ = ShadowedBytes();
  local_ = ShadowedBytes();
  last_allocation_ = nullptr;
  register_file_.insert(register_file_.end(), slots, slots + special_slots - 1);
  register_file_.push_back(0);
  push_frame(entry, nullptr);
  param_ = parameters;
  param_.resize(entry.param_bytes);
  enter(frames_.back());
  pc_ = 0;
  state_ = ThreadState::running;
}

// The special registers of the new frame are copies of those at the file's beginning.
void Thread::push_frame(const Function& function, const CallSite* site) {
  Frame frame{&function, site, pc_, 0, param_.size(), local_.size()};
  if (!frames_.empty()) {
    frame.register_base = register_file_.size();
  }
  const std::size_t end = frame.register_base + function.register_count;
  register_file_.resize(end);
  register_defined_.resize(end);
  std::copy_n(register_file_.begin(), special_slots - 1,
              register_file_.begin() + static_cast<std::ptrdiff_t>(frame.register_base));
  register_file_[frame.register_base + local_base] = frame.local_base;
  std::fill_n(register_defined_.begin() + static_cast<std::ptrdiff_t>(frame.register_base),
              static_cast<std::size_t>(special_slots), std::uint8_t{1});
  param_.resize(param_.size() + function.param_bytes);
  local_.resize((local_.size() + function.local_bytes + 15) / 16 * 16);
  frames_.push_back(frame);
}

void Thread::enter(const Frame& frame) {
  function_ = frame.function;
  registers_ = register_file_.data() + frame.register_base;
  defined_ = register_defined_.data() + frame.register_base;
  constants_ = frame.function->constants.data();
}

void Thread::transfer(const Transfer& transfer, const Frame& from, const Frame& to) {
  std::array<std::uint8_t, 8> bytes{};
  if (!transfer.from_register && !transfer.to_register) {
    const std::size_t source = from.param_base + transfer.from;
    const std::size_t target = to.param_base + transfer.to;
    std::copy_n(param_.bytes() + source, transfer.size_bytes, param_.bytes() + target);
    std::copy_n(param_.defined() + source, transfer.size_bytes, param_.defined() + target);
    return;
  }
  if (transfer.from_register) {
    enter(from);
    const auto value = read<std::uint64_t>(transfer.from);
    std::memcpy(bytes.data(), &value, 8);
  } else {
    const std::size_t source = from.param_base + transfer.from;
    check_defined({param_.bytes() + source, param_.defined() + source}, transfer.from,
                  transfer.size_bytes);
    std::memcpy(bytes.data(), param_.bytes() + source, transfer.size_bytes);
  }
  if (transfer.to_register) {
    enter(to);
    write(transfer.to, std::bit_cast<std::uint64_t>(bytes));
  } else {
    param_.write(to.param_base + transfer.to, {bytes.data(), transfer.size_bytes});
  }
}

void Thread::call(const CallSite& site) {
  if (frames_.size() >= k_max_call_depth) {
    fail(FaultKind::trap, fmt::format("more than {} calls inside one another", k_max_call_depth));
  }
  const Frame caller = frames_.back();
  push_frame(block_->program->functions[site.function], &site);
  for (const Transfer& argument : site.arguments) {
    transfer(argument, caller, frames_.back());
  }
  enter(frames_.back());
  pc_ = 0;
}

void Thread::return_from_call() {
  if (frames_.size() == 1) {
    exit();
    return;
  }
  const Frame callee = frames_.back();
  frames_.pop_back();
  for (const Transfer& result : callee.site->results) {
    transfer(result, callee, frames_.back());
  }
  register_file_.resize(callee.register_base);
  register_defined_.resize(callee.register_base);
  param_.resize(callee.param_base);
  local_.resize(callee.local_base);
  enter(frames_.back());
  pc_ = callee.return_pc;
}

void Thread::fail_undefined(Operand operand) const {
  for (const RegisterRange& range : function_->registers) {
    if (operand >= range.first && operand < range.first + range.count) {
      const std::string number = range.numbered ? std::to_string(operand - range.first) : "";
      fail(FaultKind::uninitialized_read,
           fmt::format("reads register {}{}, which nothing has written", range.name, number));
    }
  }
  fail(FaultKind::uninitialized_read, "reads a register that nothing has written");
}

Place Thread::place(Space space, Address address, std::uint32_t size, bool for_writing) {
  if (address % size != 0) {
    fail(FaultKind::misaligned_address,
         fmt::format("address {:#x} is not a multiple of {} bytes", address, size));
  }
  if (space == Space::generic && address >= k_shared_window) {
    space = address >= k_local_window ? Space::local : Space::shared;
    address -= space == Space::local ? k_local_window : k_shared_window;
  }
  if (space == Space::generic || space == Space::global || space == Space::constant) {
    return find_place(*block_->memory, last_allocation_, {space, address, size, for_writing});
  }
  ShadowedBytes* region = &block_->shared;
  std::string_view name = "shared";
  std::uint64_t base = 0;
  std::uint64_t limit = region->size();
  if (space != Space::shared) {
    const bool is_local = space == Space::local;
    region = is_local ? &local_ : &param_;
    name = is_local ? "local" : "param";
    base = is_local ? 0 : frames_.back().param_base;
    limit = is_local ? region->size() : frames_.back().function->param_bytes;
  }
  if (address > limit || limit - address < size) {
    fail(FaultKind::illegal_address,
         fmt::format("{} {} bytes at offset {:#x} of {} bytes of {} memory",
                     for_writing ? "writes" : "reads", size, address, limit, name));
  }
  return {region->bytes() + base + address, region->defined() + base + address};
}

std::uint64_t Thread::run(std::uint64_t budget) {
  std::uint64_t executed = 0;
  try {
    while (state_ == ThreadState::running && executed < budget) {
      const Instruction& instruction = function_->code[pc_++];
      ++executed;
      if (instruction.guard != k_no_operand) {
        const bool negated = (instruction.guard & k_constant_bit) != 0;
        if (read<bool>(instruction.guard & ~k_constant_bit) == negated) {
          continue;
        }
      }
      instruction.handler(*this, instruction);
    }
  } catch (const ProgramError& error) {
    const std::uint32_t line = function_->code[pc_ - 1].line;
    throw ProgramError(
        error.kind(),
        fmt::format("line {}: '{}': {} (thread {},{},{} of block {},{},{} in {})", line,
                    block_->program->line_text(line), error.what(), registers_[tid_x],
                    registers_[tid_y], registers_[tid_z], registers_[ctaid_x], registers_[ctaid_y],
                    registers_[ctaid_z], function_->name));
  }
  return executed;
}

}  // namespace spjit::emulated
