#include "bench/search_cost/cost_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace spjit::bench {
namespace {

constexpr double k_mib = 1 << 20;

void add_note(std::string& note, const std::string& more) {
  if (more.empty()) return;
  if (!note.empty()) note += "; ";
  note += more;
}

/// The run that counts: one that did not come to its end, else the one with the middle time.
const CostRun& deciding(std::span<const CostRun> runs) {
  std::vector<const CostRun*> order;
  for (const CostRun& run : runs) {
    if (!run.child.failure.empty()) return run;
    order.push_back(&run);
  }
  const auto middle = order.begin() + (std::ssize(order) - 1) / 2;
  std::nth_element(order.begin(), middle, order.end(), [](const CostRun* a, const CostRun* b) {
    return a->child.report.seconds < b->child.report.seconds;
  });
  return **middle;
}

std::string shortened(const std::string& name, std::size_t width) {
  return name.size() <= width ? name : "~" + name.substr(name.size() - width + 1);
}

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

std::string to_string(CostWay way) {
  switch (way) {
    case CostWay::full_undivided:
      return "full undivided";
    case CostWay::full_units:
      return "full units";
    case CostWay::full_ptx_units:
      return "full ptx units";
    case CostWay::proxies:
      return "proxies";
    case CostWay::ranked:
      return "ranked";
    case CostWay::instant:
      return "instant";
  }
  return "?";
}

std::vector<CostWay> cost_ways(bool cuda) {
  if (!cuda) {
    return {CostWay::full_undivided, CostWay::proxies, CostWay::ranked, CostWay::instant};
  }
  return {CostWay::full_undivided, CostWay::full_units, CostWay::full_ptx_units,
          CostWay::proxies,        CostWay::ranked,     CostWay::instant};
}

bool is_full(CostWay way) {
  return way == CostWay::full_undivided || way == CostWay::full_units ||
         way == CostWay::full_ptx_units;
}

std::optional<double> estimate_seconds(const CostProgress& progress) {
  if (progress.compiled < 1 || progress.candidates <= progress.compiled) return std::nullopt;
  const double each =
      (progress.latest_s - progress.begun_s) / static_cast<double>(progress.compiled);
  return progress.begun_s + each * static_cast<double>(progress.candidates);
}

CostRow make_cost_row(const CostRowHead& head, std::span<const CostRun> runs, double limit_s) {
  const CostRun& run = deciding(runs);
  const CostProgress& progress = run.progress;
  CostRow row;
  row.matrix = head.item.name;
  row.rows = head.item.matrix.rows;
  row.cols = head.item.matrix.cols;
  row.nnz = head.item.matrix.nnz();
  row.n = head.item.n;
  row.target = head.target;
  row.way = to_string(head.way);
  if (progress.candidates > 0) row.candidates = progress.candidates;
  // The host's searches tell what they looked at when they are done, and count nothing before.
  const bool counts = progress.compiled > 0 || (run.child.killed && progress.candidates > 0);
  if (is_full(head.way) && counts) row.compiled = progress.compiled;
  row.killed = run.child.killed;
  row.seconds = row.killed ? limit_s : run.child.report.seconds;
  row.cpu_seconds = run.child.cpu_seconds;
  row.peak_mib = static_cast<double>(run.child.peak_rss_bytes) / k_mib;
  row.compile_only = head.compile_only;
  row.runs = static_cast<int>(runs.size());
  if (!row.killed) row.failure = run.child.failure;
  if (row.killed && is_full(head.way)) row.estimated_seconds = estimate_seconds(progress);
  if (row.estimated_seconds) row.estimated_seconds = std::max(*row.estimated_seconds, limit_s);
  row.note = head.note;
  add_note(row.note, progress.note);
  if (progress.failed > 0) {
    add_note(row.note, fmt::format("{} of {} did not compile", progress.failed, progress.compiled));
  }
  if (row.killed) add_note(row.note, "killed: " + run.child.failure);
  return row;
}

nlohmann::json to_json(const CostRow& row) {
  return {{"matrix", row.matrix},
          {"rows", row.rows},
          {"cols", row.cols},
          {"nnz", row.nnz},
          {"n", row.n},
          {"target", row.target},
          {"way", row.way},
          {"candidates", or_null(row.candidates)},
          {"compiled", or_null(row.compiled)},
          {"seconds", row.seconds},
          {"estimated_seconds", or_null(row.estimated_seconds)},
          {"cpu_seconds", row.cpu_seconds},
          {"peak_mib", row.peak_mib},
          {"killed", row.killed},
          {"compile_only", row.compile_only},
          {"runs", row.runs},
          {"note", row.note}};
}

std::string cost_header() {
  return fmt::format("{:<36} {:>7} {:>4} {:<12} {:<15} {:>6} {:>8} {:>10} {:>9} {:>9}  {}\n",
                     "matrix", "nnz", "n", "target", "way", "tiles", "compiled", "seconds",
                     "estimate", "peak MiB", "note");
}

std::string cost_line(const CostRow& row) {
  std::string line = fmt::format("{:<36} {:>7} {:>4} {:<12} {:<15} ", shortened(row.matrix, 36),
                                 row.nnz, row.n, row.target, row.way);
  if (!row.failure.empty()) return line + "FAILED: " + row.failure + "\n";
  const auto count = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::to_string(*value) : std::string("-");
  };
  const std::string estimate =
      row.estimated_seconds ? fmt::format("{:.0f}", *row.estimated_seconds) : std::string("-");
  return line + fmt::format("{:>6} {:>8} {:>10} {:>9} {:>9.1f}  {}\n", count(row.candidates),
                            count(row.compiled),
                            fmt::format("{}{:.4g}", row.killed ? ">=" : "", row.seconds), estimate,
                            row.peak_mib, row.note);
}

}  // namespace spjit::bench
