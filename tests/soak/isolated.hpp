#pragma once

/// @file
/// A job in a process of its own: what crashes or hangs there is told, not shared.

#include <functional>
#include <string>

namespace spjit::soak {

/// The result of `job`, run in a forked process, cut at 4000 bytes; or "killed by signal 11
/// (Segmentation fault)", or "exit status 3 without an answer". The job may set an alarm() of its
/// own. Throws std::runtime_error if no process can be started. Only for processes with one thread.
[[nodiscard]] std::string isolated(const std::function<std::string()>& job);

}  // namespace spjit::soak
