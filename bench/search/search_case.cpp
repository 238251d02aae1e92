#include "bench/search/search_case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "bench/rank_agreement.hpp"
#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_timer.hpp"
#include "kernels/host/unrolled/host_tunable.hpp"
#include "proxy/search.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_oracle = "oracle";
constexpr const char* k_instant = "instant";

/// Long enough for every survivor of the largest matrix.
constexpr double k_budget_ms = 600'000;

constexpr int k_judge_loads = 12;  // even

/// What a way is made of.
struct Way {
  std::string name;
  SearchMode mode = SearchMode::proxy;
  bool as_shipped = true;  ///< the mode's own stages, else proxies of all
  HostReductions reductions = {};
  bool drops = true;  ///< drops slow ones early
};

std::vector<Way> ways_of() {
  HostReductions whole;
  whole.kernels = false;
  return {{k_oracle, SearchMode::exhaustive, true, whole, false},
          {k_instant, SearchMode::instant},
          {"ranked", SearchMode::ranked},
          {"proxy", SearchMode::proxy},
          {"exhaustive", SearchMode::exhaustive},
          {"proxies", SearchMode::proxy, false}};
}

TimeHostKernels timer_with(bool drops) {
  return [drops](std::span<const HostTuningCandidate> candidates, const TuningOptions& given) {
    TuningOptions options = given;
    if (!drops) {
      options.drops = false;
      options.min_rounds = options.max_rounds = 7;
    }
    return time_host_kernels(candidates, options, {.between_bytes = 0});
  };
}

/// The time that the way's order is by; 0 if it has none.
double time_of(const SearchTraceEntry& tile, bool proxies) {
  const std::optional<TuningResult>& result = proxies ? tile.proxy : tile.full;
  return result && result->timing.samples > 0 ? result->timing.median_us : 0;
}

/// Kendall's over the tiles that both have times of.
double tau_of(const SearchTrace& search, const SearchTrace& oracle) {
  std::map<std::string, double> truth;
  for (const SearchTraceEntry& tile : oracle.entries) {
    if (const double us = time_of(tile, false); us > 0) truth[tile.tile] = us;
  }
  std::vector<double> times;
  std::vector<double> true_times;
  for (const SearchTraceEntry& tile : search.entries) {
    const double us = time_of(tile, search.proxies);
    const auto found = truth.find(tile.tile);
    if (us <= 0 || found == truth.end()) continue;
    times.push_back(us);
    true_times.push_back(found->second);
  }
  return kendall_tau(times, true_times);
}

/// The fastest by proxy alone.
std::size_t top1_of(const SearchTrace& search) {
  std::size_t best = search.chosen;
  double best_us = 0;
  for (std::size_t i = 0; i < search.entries.size(); ++i) {
    const SearchTraceEntry& tile = search.entries[i];
    const double us = time_of(tile, true);
    const bool counts = us > 0 && tile.proxy->outcome == TuningOutcome::finished;
    if (counts && (best_us == 0 || us < best_us)) {
      best = i;
      best_us = us;
    }
  }
  return best;
}

/// Times of candidates over half of the loads each.
struct Judgement {
  std::vector<double> even_us;
  std::vector<double> odd_us;
};

std::vector<double> medians_of(const std::vector<std::vector<double>>& samples, std::size_t first) {
  std::vector<double> medians;
  medians.reserve(samples.size());
  for (const std::vector<double>& of : samples) {
    std::vector<double> half;
    for (std::size_t load = first; load < of.size(); load += 2) half.push_back(of[load]);
    medians.push_back(summarize_samples("", std::move(half)).median_us);
  }
  return medians;
}

/// Medians over loads of each kernel, B and C, of the median of a few samples: the same code is
/// some percent faster or slower from one load to the next (docs/design/search.md).
Judgement load_and_time(const std::vector<HostTuningCandidate>& candidates) {
  TuningOptions five_rounds;
  five_rounds.drops = false;
  five_rounds.min_rounds = five_rounds.max_rounds = 5;
  std::vector<std::vector<double>> samples(candidates.size());
  for (int load = 0; load < k_judge_loads; ++load) {
    const std::vector<TuningResult> times =
        time_host_kernels(candidates, five_rounds, {.between_bytes = 0});
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!times[i].failure.empty()) throw Error(times[i].failure);
      samples[i].push_back(times[i].timing.median_us);
    }
  }
  return {medians_of(samples, 0), medians_of(samples, 1)};
}

/// Of the candidate: over the one that is best on one half of the loads, as timed on the other. So
/// the best is not who was lucky when it was picked; a loss may be negative.
double loss_of(const Judgement& judgement, std::size_t candidate) {
  const auto over_best_of = [&](const std::vector<double>& picks, const std::vector<double>& us) {
    const auto best = static_cast<std::size_t>(std::ranges::min_element(picks) - picks.begin());
    return us[candidate] / us[best] - 1;
  };
  return (over_best_of(judgement.even_us, judgement.odd_us) +
          over_best_of(judgement.odd_us, judgement.even_us)) /
         2;
}

/// Runs the ways on one matrix.
class SearchCase {
 public:
  SearchCase(CsrMatrix matrix, std::int64_t n) {
    problem_.a = std::move(matrix);
    problem_.n = n;
    options_.policy.search_budget_ms = k_budget_ms;
    options_.policy.hot = true;
    limits_ = host_device_info(options_.target.isa());
    model_ = shipped_host_model(options_.target.isa());
    heuristic_ = choice_by_rules();
  }

  WayResult run(const Way& way) {
    WayResult result;
    result.way = way.name;
    if (way.mode == SearchMode::instant) {
      const auto start = std::chrono::steady_clock::now();
      result.tile = choice_by_rules();
      const std::chrono::duration<double, std::milli> time =
          std::chrono::steady_clock::now() - start;
      result.rank_ms = time.count();
      tops_.push_back(result.tile);
      return result;
    }
    options_.policy.search = way.mode;
    SearchSettings settings;
    settings.mode = way.mode;
    settings.budget_ms = k_budget_ms;
    HostTuning tuning;
    tuning.reductions = way.reductions;
    tuning.builders = 1;  // seconds are those of one core
    HostTunable space({problem_, options_, limits_, heuristic_, model_.get()},
                      timer_with(way.drops), tuning);
    settings.stages = search_stages(way.mode, options_.policy.top_k,
                                    !way.as_shipped || space.traits().stand_ins_pay);
    SearchTrace trace = search(space, settings, {}).trace;
    result.tile = space.tile(trace.chosen);
    result.proxies = trace.proxies;
    result.rank_ms = trace.rank_ms;
    result.proxy_ms = trace.proxy_ms;
    result.full_ms = trace.full_ms;
    tops_.push_back(trace.proxies ? space.tile(top1_of(trace)) : result.tile);
    if (way.name == k_oracle) {
      oracle_ = std::move(trace);
    } else {
      result.tau = tau_of(trace, oracle_);
    }
    return result;
  }

  [[nodiscard]] std::size_t survivors() const { return oracle_.entries.size(); }

  /// Times every choice in full once more, side by side, and fills in the losses.
  void judge(SearchCaseResult& result) {
    std::vector<HostTuningCandidate> candidates;
    const auto add = [&](const HostTile& tile) {
      const auto same = [&](const HostTuningCandidate& other) { return other.tile == tile; };
      if (std::ranges::none_of(candidates, same)) candidates.push_back({make(tile), tile, 0});
    };
    for (const WayResult& way : result.ways) add(way.tile);
    for (const HostTile& tile : tops_) add(tile);
    const Judgement judgement = load_and_time(candidates);
    const std::vector<double>& us = judgement.even_us;
    const auto best = std::ranges::min_element(us);
    result.best_us = *best;
    result.best_tile = to_string(candidates[static_cast<std::size_t>(best - us.begin())].tile);
    for (std::size_t i = 0; i < us.size(); ++i) {
      result.noise += std::abs(us[i] / judgement.odd_us[i] - 1) / static_cast<double>(us.size());
    }
    const auto loss = [&](const HostTile& tile) {
      const auto found = std::ranges::find(candidates, tile, &HostTuningCandidate::tile);
      return loss_of(judgement, static_cast<std::size_t>(found - candidates.begin()));
    };
    for (std::size_t i = 0; i < result.ways.size(); ++i) {
      result.ways[i].loss = loss(result.ways[i].tile);
      result.ways[i].top1_loss = loss(tops_[i]);
    }
  }

 private:
  std::shared_ptr<const HostArtifact> make(const HostTile& tile) {
    const CsrMatrix& matrix = *problem_.a;
    const KernelPlan plan = build_plan(matrix, group_rows(matrix, tile.m1, options_.policy.reorder),
                                       std::max<std::int64_t>(matrix.cols, 1));
    HostProxyOptions whole;
    whole.reductions.tiles = false;
    return std::make_shared<HostArtifact>(
        make_host_proxy(plan, tile, problem_, options_.target.isa(), whole));
  }

  [[nodiscard]] HostTile choice_by_rules() const {
    const DeviceInfo device = limits_;
    const Cancellation cancel;
    return host_choice_by_rules({problem_, options_, device, cancel}).tile;
  }

  Problem problem_;
  CompileOptions options_;
  HostDeviceInfo limits_;
  std::shared_ptr<const LoadedRankModel> model_;
  HostTile heuristic_;
  SearchTrace oracle_;
  std::vector<HostTile> tops_;  ///< of each way, the best without finalists
};

}  // namespace

const WayResult* SearchCaseResult::find(const std::string& way) const {
  const auto found = std::ranges::find(ways, way, &WayResult::way);
  return found == ways.end() ? nullptr : &*found;
}

std::vector<std::string> all_ways() {
  std::vector<std::string> names;
  for (const Way& way : ways_of()) names.push_back(way.name);
  return names;
}

SearchCaseResult run_search_case(const MatrixSource& workload, std::int64_t n,
                                 const std::vector<std::string>& ways) {
  SearchCaseResult result;
  result.matrix = workload.name;
  result.n = n;
  try {
    CsrMatrix matrix = workload.load();
    matrix.sort_columns();
    result.rows = matrix.rows;
    result.cols = matrix.cols;
    result.nnz = matrix.nnz();
    SearchCase search_case(std::move(matrix), n);
    for (const Way& way : ways_of()) {
      const bool wanted = std::ranges::find(ways, way.name) != ways.end();
      if (wanted || way.name == k_oracle) result.ways.push_back(search_case.run(way));
    }
    result.survivors = search_case.survivors();
    search_case.judge(result);
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace spjit::bench
