#include "bench/search_cost/child_run.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>

#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

/// What a child writes into its pipe: small enough to be written at once.
struct Message {
  WorkReport report;
  std::array<char, 256> failure{};  // zero-terminated; empty: none
};

[[noreturn]] void be_child(const std::function<WorkReport()>& work, int pipe) {
  Message message;
  try {
    message.report = work();
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    const std::size_t line = std::min(text.find('\n'), text.size());
    std::memcpy(message.failure.data(), text.data(), std::min(line, message.failure.size() - 1));
    if (message.failure[0] == '\0') message.failure[0] = '?';
  }
  const ssize_t written = ::write(pipe, &message, sizeof message);
  ::_exit(written == static_cast<ssize_t>(sizeof message) ? 0 : 1);
}

/// Waits for the child, and kills it at the deadline. Its exit status; -1 where it was killed here.
int wait_until(pid_t child, double limit_s, rusage& usage) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit_s);
  int status = 0;
  while (true) {
    const pid_t done = ::wait4(child, &status, WNOHANG, &usage);
    if (done == child) return status;
    if (done < 0 && errno != EINTR) throw Error("cannot wait for a child process");
    if (Clock::now() >= deadline) {
      ::kill(child, SIGKILL);
      while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
      }
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

ChildRun run_in_child(const std::function<WorkReport()>& work, double limit_s) {
  int ends[2];
  if (::pipe(ends) != 0) throw Error("cannot make a pipe");
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw Error("cannot fork");
  }
  if (child == 0) be_child(work, ends[1]);
  ::close(ends[1]);
  rusage usage{};
  const int status = wait_until(child, limit_s, usage);
  Message message;
  const ssize_t got = ::read(ends[0], &message, sizeof message);
  ::close(ends[0]);

  ChildRun run;
  run.peak_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) << 10;
  run.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  if (status == -1) {
    run.failure = fmt::format("over {:g} s", limit_s);
    run.killed = true;
  } else if (got != static_cast<ssize_t>(sizeof message)) {
    run.failure = fmt::format("the process ended with status {}", status);
  } else {
    run.failure = message.failure.data();
    run.report = message.report;
  }
  return run;
}

}  // namespace spjit::bench
