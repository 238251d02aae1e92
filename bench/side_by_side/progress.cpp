#include "bench/side_by_side/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace spjit::side_by_side {

std::string summary_of(const CaseResult& result) {
  if (result.all_right()) return "right, not timed";
  const auto first = std::find_if(result.timings.begin(), result.timings.end(),
                                  [](const PeerTiming& timing) { return timing.failed.empty(); });
  if (first == result.timings.end()) return "no library computes it";
  std::vector<std::string> others;
  for (const PeerTiming& timing : result.timings) {
    if (timing.library == first->library) continue;
    others.push_back(timing.failed.empty()
                         ? fmt::format("{} {:.2f}", timing.library,
                                       timing.warm.median_us / first->warm.median_us)
                         : timing.library + " failed");
  }
  return fmt::format("{} {:.2f} us, {:.1f} GFLOP/s; times as long: {}", first->library,
                     first->warm.median_us, result.gflops(*first), fmt::join(others, ", "));
}

Progress::Progress(std::size_t total) : begin_(std::chrono::steady_clock::now()), total_(total) {}

std::string Progress::advance() {
  ++done_;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double each = seconds / static_cast<double>(done_);
  const auto left = static_cast<int>(each * static_cast<double>(total_ - done_));
  return fmt::format("[{:>4}/{}, {}:{:02} left]", done_, total_, left / 60, left % 60);
}

}  // namespace spjit::side_by_side
