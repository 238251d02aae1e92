#pragma once

/// @file
/// tests/support/files/fault_server.py in a process of its own.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit::test {

/// Serves a folder of its own until it goes. Throws std::runtime_error if it does not start.
class FaultServer {
 public:
  /// `certificate`: of localhost, with its key, for HTTPS.
  explicit FaultServer(const std::filesystem::path& certificate = {});
  FaultServer(const FaultServer&) = delete;
  FaultServer& operator=(const FaultServer&) = delete;
  ~FaultServer();

  /// Whether there is a Python to run it.
  [[nodiscard]] static bool can_run() { return has_program("python3"); }

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_.path(); }
  /// "http://127.0.0.1:PORT/FAULT"
  [[nodiscard]] std::string url(const std::string& fault) const;
  [[nodiscard]] int port() const noexcept { return port_; }
  /// The path of each request so far with its method first: "PUT /ok/ab".
  [[nodiscard]] std::vector<std::string> requests() const;
  /// The whole log: JSON.
  [[nodiscard]] std::string log() const;

 private:
  ScratchDirectory folder_;
  FileDescriptor input_;  ///< it ends with this
  pid_t pid_ = -1;
  int port_ = 0;
  bool is_tls_ = false;
};

/// A port of this machine that nobody listens at.
[[nodiscard]] int unused_port();

}  // namespace spjit::test
