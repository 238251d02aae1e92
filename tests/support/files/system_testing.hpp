#pragma once

/// @file
/// Scratch directories, bytes and subprocesses for tests.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spjit::test {

/// A new directory that is removed with all it holds.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::vector<std::byte> to_bytes(std::initializer_list<int> values);
[[nodiscard]] std::vector<std::byte> to_bytes(std::string_view text);
[[nodiscard]] std::vector<std::byte> read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Whether `program` is on the PATH.
[[nodiscard]] bool has_program(const std::string& program);

struct CommandResult {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};

/// Runs a shell command.
[[nodiscard]] CommandResult run_command(const std::string& command);

/// Compiles C source to a relocatable object. Fails the test if the compiler refuses.
[[nodiscard]] std::vector<std::byte> compile_c(const std::string& source, const std::string& flags);

/// Runs `body` in a forked child; returns its exit code (what `body` returns), 200 if it threw, or
/// 201 if it was killed.
[[nodiscard]] int in_child(const std::function<int()>& body);

/// The permissions ("r-xp") of the mapping of this process that holds `address`; empty if none.
[[nodiscard]] std::string permissions_at(const void* address);

}  // namespace spjit::test
