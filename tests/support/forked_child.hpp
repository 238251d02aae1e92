#pragma once

/// @file
/// Runs a child of fork(), which has none of its parent's other threads.

#include <sys/wait.h>
#include <unistd.h>

namespace spjit::testing_support {

/// Whether a child of fork() comes to the end of `body`, and that returns true. One that hangs is
/// ended after a while.
template <class Body>
[[nodiscard]] bool ends_in_a_child(const Body& body) {
  constexpr unsigned k_alarm_s = 20;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(k_alarm_s);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace spjit::testing_support
