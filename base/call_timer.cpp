#include "base/call_timer.hpp"

#include <chrono>
#include <cstddef>

namespace spjit {

double CallTimer::us(std::int64_t calls, FunctionRef<void()> call) const {
  using Clock = std::chrono::steady_clock;
  Clock::duration sum{0};
  auto start = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) {
    if (disturb_) {
      disturb_();
      read_input();
      start = Clock::now();
    }
    call();
    if (disturb_) sum += Clock::now() - start;
  }
  if (!disturb_) sum = Clock::now() - start;
  return std::chrono::duration<double, std::micro>(sum).count();
}

void CallTimer::read_input() const {
  constexpr std::size_t k_line_floats = 16;
  for (std::size_t i = 0; i < input_.size(); i += k_line_floats) {
    static_cast<void>(*static_cast<const volatile float*>(&input_[i]));
  }
}

}  // namespace spjit
