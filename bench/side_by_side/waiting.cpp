#include "bench/side_by_side/waiting.hpp"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace spjit::side_by_side {
namespace {

namespace fs = std::filesystem;

/// Of /proc/self/task/ID: "ID (name) STATE ...", where a name may hold anything.
bool is_running(const fs::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") R") == 0;
}

bool others_run() {
  const std::string own = std::to_string(::gettid());
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() != own && is_running(thread.path())) return true;
  }
  return false;
}

void wait_awake(std::chrono::nanoseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) __builtin_ia32_pause();
}

}  // namespace

bool wait_until_others_sleep(std::chrono::nanoseconds most) {
  constexpr std::chrono::microseconds k_pause{50};
  const auto end = std::chrono::steady_clock::now() + most;
  while (others_run()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    wait_awake(k_pause);
  }
  return true;
}

void end_turn(Runnable& runnable) {
  // ONNX Runtime's spin for 35 ms.
  constexpr std::chrono::milliseconds k_most{200};
  runnable.rest();
  wait_until_others_sleep(k_most);
}

}  // namespace spjit::side_by_side
