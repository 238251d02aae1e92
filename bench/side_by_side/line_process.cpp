#include "bench/side_by_side/line_process.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

pid_t spawn(const std::vector<std::string>& command, int socket) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  // posix_spawnp takes pointers to what it does not change.
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw NotSupported(
        fmt::format("{} cannot be started: {}", command.front(), std::strerror(error)));
  }
  return child;
}

}  // namespace

LineProcess::LineProcess(const std::vector<std::string>& command) : name_(command.front()) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(fmt::format("cannot make a socket for {}: {}", name_, std::strerror(errno)));
  }
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor other(ends[1]);
  child_ = spawn(command, other.get());
}

LineProcess::~LineProcess() {
  ::shutdown(socket_.get(), SHUT_WR);
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::string LineProcess::read_line() {
  std::size_t end = received_.find('\n');
  while (end == std::string::npos) {
    std::array<char, 4096> chunk{};
    const ssize_t size = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw_ended();
    received_.append(chunk.data(), static_cast<std::size_t>(size));
    end = received_.find('\n');
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::string LineProcess::ask(const std::string& line) {
  const std::string message = line + '\n';
  std::size_t sent = 0;
  while (sent < message.size()) {
    // Without MSG_NOSIGNAL a child that has ended would end this process too.
    const ssize_t size =
        ::send(socket_.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw_ended();
    sent += static_cast<std::size_t>(size);
  }
  return read_line();
}

void LineProcess::throw_ended() const {
  throw Error(fmt::format("{} ended, expected an answer", name_));
}

}  // namespace spjit::side_by_side
