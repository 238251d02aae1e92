#include "tests/soak/isolated.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace spjit::soak {
namespace {

constexpr std::size_t k_most_bytes = 4000;  // of an answer; less than a pipe holds

[[noreturn]] void answer(const std::function<std::string()>& job, int pipe) {
  // First byte: that there is an answer, which may be empty.
  const std::string text = "=" + job();
  const ssize_t written = ::write(pipe, text.data(), std::min(text.size(), k_most_bytes));
  ::_exit(written > 0 ? 0 : 1);
}

std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string isolated(const std::function<std::string()>& job) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe() failed");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork() failed");
  if (child == 0) {
    ::close(ends[0]);
    answer(job, ends[1]);
  }
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  if (text.empty()) return fmt::format("exit status {} without an answer", WEXITSTATUS(status));
  return text.substr(1);
}

}  // namespace spjit::soak
