#include "base/call_timer.hpp"

#include <chrono>

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
  constexpr std::int64_t k_line_floats = 16;
  for (std::int64_t row = 0; row < input_.rows; ++row) {
    const volatile float* const data = input_.data + row * input_.stride;
    for (std::int64_t i = 0; i < input_.columns; i += k_line_floats) static_cast<void>(data[i]);
  }
}

}  // namespace spjit
