#include "clock/result_waits.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "sass/dependencies.hpp"

namespace spjit {
namespace {

class ScoreboardWaits final : public ResultWaits {
 public:
  explicit ScoreboardWaits(const ClockProgram& program) : program_(program) {}

  [[nodiscard]] WarpResults no_results() const override { return {}; }

  [[nodiscard]] double issue_distance(std::uint32_t operation) const override {
    return std::max<double>(control_of(operation).stall, 1);
  }

  [[nodiscard]] std::optional<double> fixed_latency(std::uint32_t /*operation*/) const override {
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Wait> wait_of(const WarpResults& results, std::uint32_t operation,
                                            double ready) const override {
    std::optional<Wait> wait;
    const std::uint8_t mask = control_of(operation).wait_mask;
    for (std::size_t i = 0; mask >> i != 0; ++i) {
      if ((mask >> i & 1) == 0 || results.scoreboards[i] <= (wait ? wait->until : ready)) continue;
      wait = Wait{results.scoreboards[i], results.is_memory[i]};
    }
    return wait;
  }

  void add(WarpResults& results, std::uint32_t operation, const AccessTimes& times,
           bool is_access) const override {
    const auto raise = [&](std::uint8_t scoreboard, double until) {
      if (scoreboard >= WarpResults::k_scoreboards) return;
      if (until <= results.scoreboards[scoreboard]) return;
      results.scoreboards[scoreboard] = until;
      results.is_memory[scoreboard] = is_access;
    };
    raise(control_of(operation).write_barrier, times.done);
    raise(control_of(operation).read_barrier, times.operands);
  }

 private:
  [[nodiscard]] const sass::Control& control_of(std::uint32_t operation) const {
    return program_.operations[operation].instruction.control;
  }

  const ClockProgram& program_;
};

/// The lanes' registers that an operation waits for, and those that its results come to.
struct RegisterUse {
  SmallList<std::uint8_t, 24> waits;
  SmallList<std::uint8_t, 8> results;
};

std::vector<RegisterUse> register_uses(const ClockProgram& program) {
  std::vector<RegisterUse> uses(program.operations.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto add = [](const sass::RegisterSpans& spans, auto&& take) {
      for (const sass::RegisterSpan& span : spans) {
        if (span.kind != sass::OperandKind::reg) continue;
        for (unsigned k = 0; k < span.count; ++k) {
          take(checked_cast<std::uint8_t>(span.first + k, "the number of a register"));
        }
      }
    };
    RegisterUse& use = uses[i];
    const sass::Instruction& instruction = program.operations[i].instruction;
    add(sources_of(instruction), [&](std::uint8_t number) { use.waits.push_back(number); });
    add(results_of(instruction), [&](std::uint8_t number) {
      use.waits.push_back(number);
      use.results.push_back(number);
    });
  }
  return uses;
}

class RegisterWaits final : public ResultWaits {
 public:
  explicit RegisterWaits(const ClockProgram& program)
      : program_(program), uses_(register_uses(program)) {}

  [[nodiscard]] WarpResults no_results() const override {
    constexpr std::size_t k_registers = 256;
    WarpResults results;
    results.registers.resize(k_registers);
    return results;
  }

  [[nodiscard]] double issue_distance(std::uint32_t /*operation*/) const override { return 1; }

  [[nodiscard]] std::optional<double> fixed_latency(std::uint32_t operation) const override {
    // From the issue through operand collector and unit to the next issue, in the simulator.
    constexpr double k_simulated_latency = 8;
    if (!has_fixed_latency(program_.operations[operation].instruction)) return std::nullopt;
    return k_simulated_latency;
  }

  [[nodiscard]] std::optional<Wait> wait_of(const WarpResults& results, std::uint32_t operation,
                                            double ready) const override {
    double until = ready;
    for (const std::uint8_t number : uses_[operation].waits) {
      until = std::max(until, results.registers[number]);
    }
    if (until <= ready) return std::nullopt;
    return Wait{until, true};
  }

  void add(WarpResults& results, std::uint32_t operation, const AccessTimes& times,
           bool /*is_access*/) const override {
    for (const std::uint8_t number : uses_[operation].results) {
      results.registers[number] = std::max(results.registers[number], times.done);
    }
  }

 private:
  const ClockProgram& program_;
  std::vector<RegisterUse> uses_;  ///< of each operation
};

}  // namespace

std::unique_ptr<const ResultWaits> waits_by_scoreboard(const ClockProgram& program) {
  return std::make_unique<ScoreboardWaits>(program);
}

std::unique_ptr<const ResultWaits> waits_by_register(const ClockProgram& program) {
  return std::make_unique<RegisterWaits>(program);
}

}  // namespace spjit
