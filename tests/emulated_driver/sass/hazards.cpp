#include "emulated_driver/sass/hazards.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw ProgramError(FaultKind::hazard, message);
}

std::string text_of(const SassOperation* operation) { return to_text(operation->instruction); }

}  // namespace

bool Hazards::is_done(const Completion& completion, const Sequences& done) const noexcept {
  if (completion.queue != sass::InOrder::none &&
      done[static_cast<std::size_t>(completion.queue)] >= completion.sequence) {
    return true;
  }
  return completion.scoreboard != sass::k_no_scoreboard &&
         scoreboards_[completion.scoreboard].waits > completion.waits;
}

Hazards::Completion Hazards::completion(std::uint8_t scoreboard,
                                        sass::InOrder queue) const noexcept {
  return {.scoreboard = scoreboard,
          .waits = scoreboard == sass::k_no_scoreboard ? 0 : scoreboards_[scoreboard].waits,
          .queue = queue,
          .sequence = issued_[static_cast<std::size_t>(queue)]};
}

void Hazards::wait(const SassOperation& operation) {
  const std::uint8_t mask = operation.instruction.control.wait_mask;
  for (std::size_t i = 0; i < k_scoreboards; ++i) {
    if ((mask >> i & 1) == 0) continue;
    Scoreboard& scoreboard = scoreboards_[i];
    if (scoreboard.is_set && clock_ - scoreboard.set_at < sass::k_least_wait_distance) {
      fail(fmt::format("waits for scoreboard {} {} cycle after it was set, at least {} are needed",
                       i, clock_ - scoreboard.set_at, sass::k_least_wait_distance));
    }
    scoreboard.is_set = false;
    ++scoreboard.waits;
    for (std::size_t queue = 0; queue < k_queues; ++queue) {
      results_done_[queue] = std::max(results_done_[queue], scoreboard.results[queue]);
      sources_done_[queue] = std::max(sources_done_[queue], scoreboard.sources[queue]);
    }
  }
}

void Hazards::check_source(const SourceRegister& source) const {
  const State& state = states_[source.index];
  if (state.writer == nullptr) return;
  if (!state.writer->has_fixed_latency) {
    if (is_done(state.written, results_done_)) return;
    fail(fmt::format("reads {}, but nothing has waited for '{}'", register_text(source.index),
                     text_of(state.writer)));
  }
  const std::uint64_t distance = clock_ - state.issued;
  const int least = sass::least_distance(arch_, state.result, source.use);
  if (distance < static_cast<std::uint64_t>(least)) {
    fail(fmt::format("reads {} {} cycles after '{}', at least {} are needed",
                     register_text(source.index), distance, text_of(state.writer), least));
  }
}

void Hazards::check_result(const ResultRegister& result, const SassOperation& operation) const {
  const State& state = states_[result.index];
  const bool is_awaited = state.writer != nullptr && !state.writer->has_fixed_latency;
  const bool same_results = state.written.queue != sass::InOrder::none &&
                            state.written.queue == operation.queues.of_results;
  if (is_awaited && !same_results && !is_done(state.written, results_done_)) {
    fail(fmt::format("overwrites {}, but nothing has waited for '{}'", register_text(result.index),
                     text_of(state.writer)));
  }
  if (state.reader == nullptr) return;
  const bool same_sources =
      state.read.queue != sass::InOrder::none && state.read.queue == operation.queues.of_sources;
  if (!same_sources && !is_done(state.read, sources_done_) &&
      !is_done(state.read_done, results_done_)) {
    fail(fmt::format("overwrites {}, which '{}' may not have read: nothing has waited for it",
                     register_text(result.index), text_of(state.reader)));
  }
}

void Hazards::set(std::uint8_t scoreboard, const SassOperation& operation, bool of_results) {
  if (scoreboard == sass::k_no_scoreboard) return;
  Scoreboard& board = scoreboards_[scoreboard];
  board.is_set = true;
  board.set_at = clock_;
  const auto sources = static_cast<std::size_t>(operation.queues.of_sources);
  const auto results = static_cast<std::size_t>(operation.queues.of_results);
  // A result that is there says that operands have been read, too.
  board.sources[sources] = issued_[sources];
  if (of_results) board.results[results] = issued_[results];
}

void Hazards::issue(const SassOperation& operation, bool is_executed) {
  const sass::Control& control = operation.instruction.control;
  const auto sources = static_cast<std::size_t>(operation.queues.of_sources);
  if (sources != 0) ++issued_[sources];
  if (is_executed) {
    for (const ResultRegister& result : operation.results) {
      State& state = states_[result.index];
      state.writer = &operation;
      state.issued = clock_;
      state.result = result.result;
      state.written = completion(control.write_barrier, operation.queues.of_results);
      state.reader = nullptr;
    }
    if (operation.reads_late) {
      for (const SourceRegister& source : operation.sources) {
        // Others are read when the instruction is issued.
        if (source.index >= k_uniform_base) continue;
        State& state = states_[source.index];
        state.reader = &operation;
        state.read = completion(control.read_barrier, operation.queues.of_sources);
        state.read_done = completion(control.write_barrier, sass::InOrder::none);
      }
    }
  }
  set(control.write_barrier, operation, true);
  set(control.read_barrier, operation, false);
  clock_ += std::max<std::uint64_t>(control.stall, 1);
}

void Hazards::drain_memory() {
  const auto memory = static_cast<std::size_t>(sass::InOrder::memory);
  sources_done_[memory] = issued_[memory];
}

}  // namespace spjit::emulated
