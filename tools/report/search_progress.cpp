#include "tools/report/search_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace spjit::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// What was shown last.
struct Shown {
  Clock::time_point at{};
  std::string stage;
};

std::string redrawn_line(const SearchProgress& progress, const Terminal& terminal) {
  std::string line =
      fmt::format("search: {}/{} {} settled", progress.done, progress.total, progress.stage);
  if (!progress.best.empty()) {
    line += fmt::format(", best {:.2f} us ({})", progress.best_us, progress.best);
  }
  line += fmt::format(", {:.0f} s left at most", progress.seconds_left);
  // A line that wraps cannot be erased.
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(terminal.columns - 1, 1));
  if (line.size() > width) line.resize(width);
  return "\r\x1b[K" + line;
}

std::string json_line(const SearchProgress& progress) {
  const Json event = {{"event", "search"},
                      {"stage", progress.stage},
                      {"done", progress.done},
                      {"total", progress.total},
                      {"best", progress.best},
                      {"best_us", progress.best_us},
                      {"seconds_left", progress.seconds_left}};
  return event.dump() + "\n";
}

}  // namespace

std::function<void(const SearchProgress&)> show_search_progress(const Terminal& terminal) {
  return [terminal, shown = std::make_shared<Shown>()](const SearchProgress& progress) {
    if (progress.total == 0) return;
    const auto pause = std::chrono::milliseconds(terminal.interactive ? 100 : 500);
    const auto now = Clock::now();
    if (shown->stage == progress.stage && now - shown->at < pause) return;
    *shown = {now, std::string(progress.stage)};
    write_stderr(terminal.interactive ? redrawn_line(progress, terminal) : json_line(progress));
  };
}

}  // namespace spjit::cli
