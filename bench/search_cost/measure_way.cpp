#include "bench/search_cost/measure_way.hpp"

#include <algorithm>
#include <vector>

#include "bench/search_cost/shared_page.hpp"

namespace spjit::bench {
namespace {

/// Of the limit: what all runs of a way that is repeated may take.
constexpr double k_repeat_share = 1.0 / 6;

}  // namespace

void CostReporter::done(bool failed) {
  if (failed) ++failed_;
  latest_s_ = seconds();
  ++compiled_;
}

void CostReporter::say(std::string_view note) {
  note_.fill('\0');
  std::ranges::copy(note.substr(0, note_.size() - 1), note_.begin());
}

CostProgress CostReporter::progress() const {
  return {candidates_, compiled_, failed_, begun_s_, latest_s_, note_.data()};
}

CostRow measure_way(const CostRowHead& head, const CostSettings& settings, const CostWork& work) {
  std::vector<CostRun> runs;
  double spent_s = 0;
  do {
    const SharedPage<CostReporter> reporter;
    ChildRun child = run_in_child(
        [&] {
          reporter->start();
          WorkReport report = work(*reporter);
          report.seconds = reporter->seconds();
          return report;
        },
        settings.limit_s);
    spent_s += child.report.seconds;
    runs.push_back({std::move(child), reporter->progress()});
  } while (runs.back().child.failure.empty() && static_cast<int>(runs.size()) < settings.repeats &&
           spent_s < k_repeat_share * settings.limit_s);
  return make_cost_row(head, runs, settings.limit_s);
}

}  // namespace spjit::bench
