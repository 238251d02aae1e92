#pragma once

/// @file
/// Between the samples of libraries.

#include <chrono>

#include "bench/side_by_side/peer.hpp"
namespace spjit::side_by_side {

/// Until no other thread of this process runs or waits for a CPU, or `most` is over. The core stays
/// awake and at its clock frequency, which a sleep would not leave to the next sample. Returns
/// whether they sleep.
bool wait_until_others_sleep(std::chrono::nanoseconds most);

/// Before another library's turn: the threads of this one no longer spin.
void end_turn(Runnable& runnable);

}  // namespace spjit::side_by_side
