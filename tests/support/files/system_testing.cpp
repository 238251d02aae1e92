#include "tests/support/files/system_testing.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace spjit::test {

namespace fs = std::filesystem;

ScratchDirectory::ScratchDirectory() {
  std::string name = fs::temp_directory_path() / "spjit-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::byte> to_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return to_bytes(text);
}

void write_bytes(const fs::path& path, std::span<const std::byte> bytes) {
  std::error_code none;  // what a cache published is read-only
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add, none);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

bool has_program(const std::string& program) {
  return run_command("command -v " + program).exit_code == 0;
}

CommandResult run_command(const std::string& command) {
  CommandResult result;
  FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer{};
  std::size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    result.output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

std::vector<std::byte> compile_c(const std::string& source, const std::string& flags) {
  const ScratchDirectory directory;
  const fs::path input = directory.path() / "input.c";
  const fs::path output = directory.path() / "output.o";
  write_bytes(input, to_bytes(source));
  const CommandResult result =
      run_command("cc -c -w " + flags + " -o " + output.string() + " " + input.string());
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return read_bytes(output);
}

int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 200;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 201;
}

std::string permissions_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string permissions;
    words >> std::hex >> begin >> dash >> end >> permissions;
    if (wanted >= begin && wanted < end) return permissions;
  }
  return {};
}

}  // namespace spjit::test
