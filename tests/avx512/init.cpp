/// The only other program of the emulated PC: its kernel starts this as process 1. It runs the
/// tests that /plan names, a process a program, says on the serial port what they say, and turns
/// the PC off. A test that crashes or takes too long ends its process; the next process begins with
/// the test after it. scripts/check/avx512_tests.py writes the plan and reads what comes out.
///
///     plan    = seconds newline { program " " suite "." test newline }
///     output  = { mark("RUN " program) { what the program prints }
///                 [ mark("TIMEOUT") ] mark("EXIT " program " " status) } mark("END")
///     mark(x) = newline "@@ " x newline

#include <fcntl.h>
#include <poll.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Program {
  std::string name;
  std::vector<std::string> tests;  ///< in the order in which the program runs them
};

struct Plan {
  std::chrono::seconds limit{0};  ///< of a test
  std::vector<Program> programs;
};

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void mount_all() {
  ::mount("proc", "/proc", "proc", 0, nullptr);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  ::mount("devtmpfs", "/dev", "devtmpfs", 0, nullptr);
  ::mkdir("/dev/shm", 01777);
  ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr);
}

/// Raw: a new line is one byte.
void use_serial_port() {
  const int port = ::open("/dev/ttyS0", O_RDWR | O_NOCTTY);
  if (port < 0) return;
  termios settings{};
  ::tcgetattr(port, &settings);
  ::cfmakeraw(&settings);
  ::tcsetattr(port, TCSANOW, &settings);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(port, fd);
}

Plan read_plan() {
  std::ifstream file("/plan");
  Plan plan;
  int seconds = 0;
  file >> seconds;
  plan.limit = std::chrono::seconds(seconds);
  std::string program;
  std::string test;
  while (file >> program >> test) {
    if (plan.programs.empty() || plan.programs.back().name != program) {
      plan.programs.push_back({.name = program, .tests = {}});
    }
    plan.programs.back().tests.push_back(test);
  }
  return plan;
}

/// Starts the tests from number `first` on; what it prints comes from `output`.
pid_t start(const Program& program, std::size_t first, int& output) {
  // A file: a command line has a limit.
  std::ofstream flags("/tmp/flags");
  flags << "--gtest_color=no\n--gtest_filter=";
  for (std::size_t i = first; i < program.tests.size(); ++i) flags << program.tests[i] << ':';
  flags.close();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    const std::string path = "/tests/" + program.name;
    ::execl(path.c_str(), program.name.c_str(), "--gtest_flagfile=/tmp/flags", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  output = ends[0];
  return child;
}

/// What a process has printed, by lines.
class Progress {
 public:
  explicit Progress(const Program& program) : program_(program) {}

  /// Whether a test began or ended.
  bool add(std::string_view text) {
    bool moved = false;
    for (const char c : text) {
      if (c != '\n') {
        line_ += c;
        continue;
      }
      moved |= ends_line();
      line_.clear();
    }
    return moved;
  }

  [[nodiscard]] std::size_t begun() const { return begun_; }  ///< tests, those before counted too
  [[nodiscard]] bool in_test() const { return in_test_; }

 private:
  bool ends_line() {
    constexpr std::string_view k_run = "[ RUN      ] ";
    if (line_.starts_with(k_run)) {
      const std::string name = line_.substr(k_run.size());
      for (std::size_t i = 0; i < program_.tests.size(); ++i) {
        if (program_.tests[i] == name) begun_ = i + 1;
      }
      in_test_ = true;
      return true;
    }
    const bool ended =
        in_test_ && (line_.starts_with("[       OK ] ") || line_.starts_with("[  FAILED  ] ") ||
                     line_.starts_with("[  SKIPPED ] "));
    if (ended) in_test_ = false;
    return ended;
  }

  const Program& program_;
  std::string line_;
  std::size_t begun_ = 0;
  bool in_test_ = false;
};

/// Prints what comes from `output` until its other end closes. False: a test took too long.
bool follow(int output, std::chrono::seconds limit, Progress& progress) {
  Clock::time_point deadline = Clock::now() + limit;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{.fd = output, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t size = ::read(output, buffer.data(), buffer.size());
    if (size <= 0) return true;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(size));
    say(text);
    if (progress.add(text)) deadline = Clock::now() + limit;
  }
}

void run(const Program& program, std::chrono::seconds limit) {
  std::size_t first = 0;
  while (first < program.tests.size()) {
    say("\n@@ RUN " + program.name + "\n");
    int output = -1;
    const pid_t child = start(program, first, output);
    Progress progress(program);
    const bool in_time = child > 0 && follow(output, limit, progress);
    if (!in_time) {
      say("\n@@ TIMEOUT\n");
      if (child > 0) ::kill(-child, SIGKILL);
    }
    ::close(output);
    int status = -1;
    ::waitpid(child, &status, 0);
    say("\n@@ EXIT " + program.name + " " + std::to_string(status) + "\n");
    const bool finished = in_time && !progress.in_test();
    if (finished || progress.begun() <= first) return;
    first = progress.begun();
  }
}

/// Bochs ends where this word comes out of that port.
[[noreturn]] void turn_off() {
  ::tcdrain(STDOUT_FILENO);
  if (::iopl(3) == 0) {
    for (const char c : std::string_view("Shutdown")) ::outb(static_cast<unsigned char>(c), 0x8900);
  }
  while (true) ::pause();
}

}  // namespace

int main() {
  mount_all();
  use_serial_port();
  ::setenv("HOME", "/tmp", 1);
  ::setenv("SPJIT_CACHE_DIR", "/tmp/cache", 1);
  ::setenv("SPJIT_EMULATED", "1", 1);
  const Plan plan = read_plan();
  for (const Program& program : plan.programs) run(program, plan.limit);
  say("\n@@ END\n");
  turn_off();
}
