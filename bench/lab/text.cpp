#include "bench/lab/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace spjit::bench {
namespace {

/// "1.04 (0.97-1.10)", and how many layers if not all; "-" if the way has no time.
std::string times_of(const std::vector<Case>& cases, std::size_t way) {
  double logarithms = 0;
  double least = 0;
  double most = 0;
  std::int64_t layers = 0;
  std::int64_t layers_in_all = 0;
  std::size_t timed = 0;
  for (const Case& one : cases) {
    layers_in_all += one.layers;
    const std::optional<double> ratio = one.ratio(one.timings[way].way);
    if (!ratio) continue;
    least = timed == 0 ? *ratio : std::min(least, *ratio);
    most = timed == 0 ? *ratio : std::max(most, *ratio);
    logarithms += static_cast<double>(one.layers) * std::log(*ratio);
    layers += one.layers;
    ++timed;
  }
  if (timed == 0) return "-";
  if (timed == 1 && cases.size() == 1) return fmt::format("{:.2f}", least);
  const double mean = std::exp(logarithms / static_cast<double>(layers));
  std::string text = fmt::format("{:.2f} ({:.2f}-{:.2f})", mean, least, most);
  if (layers < layers_in_all) text += fmt::format(" {}/{}", layers, layers_in_all);
  return text;
}

/// A line for each way that was not timed, with the reason.
std::string reasons_of(const std::vector<Case>& cases) {
  std::set<std::string> lines;
  for (const Case& one : cases) {
    for (const WayTiming& timing : one.timings) {
      if (timing.failed.empty()) continue;
      lines.insert(fmt::format("  not timed: {}: {}\n", timing.way, timing.failed));
    }
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

std::string to_text(const std::vector<Case>& cases) {
  const Case& one = cases.front();
  double us = 0;
  double noise = 0;
  for (const Case& some : cases) {
    if (some.timings.empty() || some.timings.front().time.samples == 0) continue;
    us += some.timings.front().time.median_us;
    noise = std::max(noise, some.timings.front().time.noise);
  }
  std::string text = one.workload;
  if (!one.comparison.empty()) text += ' ' + one.comparison;
  text += fmt::format(" n={} t={} {}:", one.n, one.threads, one.hot ? "hot" : "cold");
  for (std::size_t way = 0; way < one.timings.size(); ++way) {
    const std::string& name = one.timings[way].way;
    if (way > 0) {
      text +=
          fmt::format("{} {} {}", way == 1 ? "; times as long:" : ",", name, times_of(cases, way));
    } else {
      text += ' ' + name + (us > 0 ? fmt::format(" {:.2f} us +-{:.1f} %", us, 100 * noise) : " -");
    }
  }
  return text + '\n' + reasons_of(cases);
}

}  // namespace spjit::bench
