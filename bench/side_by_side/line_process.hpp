#pragma once

/// @file
/// Another process that answers lines.

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file_descriptor.hpp"

namespace spjit::side_by_side {

/// A child whose standard input and output are one socket. It is told to end by the end of its
/// input, and waited for.
class LineProcess {
 public:
  /// `command`: a program, looked up in PATH, and its arguments. Throws NotSupported if it cannot
  /// be started.
  explicit LineProcess(const std::vector<std::string>& command);
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;
  ~LineProcess();

  /// The next line it writes, without its end. Throws Error if it ends before that.
  [[nodiscard]] std::string read_line();

  /// Writes `line` and its end, then reads. Throws Error if the process has ended.
  [[nodiscard]] std::string ask(const std::string& line);

 private:
  [[noreturn]] void throw_ended() const;

  std::string name_;
  FileDescriptor socket_;
  pid_t child_ = -1;
  std::string received_;  ///< after the last line that was read
};

}  // namespace spjit::side_by_side
