#include "proxy/host_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/elapsed.hpp"
#include "kernels/unrolled_host/host_ranking.hpp"
#include "kernels/unrolled_host/tile_space.hpp"
#include "matrix/non_empty_rows.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

/// What the proxies may use of the time; the rest is for the finalists.
constexpr double k_proxy_share = 0.7;
/// The same for whole kernels that are timed before the finalists.
constexpr double k_full_share = 0.9;
/// The same code is a few percent faster or slower from one load to the next, by which physical
/// pages it gets (docs/search.md); so few tiles are loaded this often and the middle one counts.
/// Of more the best are timed again like that, and the heuristic's.
constexpr std::size_t k_loads = 5;
constexpr std::size_t k_few_tiles = 8;
/// Rounds of a race at most. Proxies only choose the finalists.
constexpr int k_proxy_rounds = 8;
constexpr int k_full_rounds = 16;
/// Loads differ by more than that.
constexpr double k_host_error_goal = 0.01;

/// When the shares of a search's budget are spent.
class SearchClock {
 public:
  explicit SearchClock(double budget_ms) : budget_ms_(budget_ms) {}

  [[nodiscard]] Clock::time_point start() const { return start_; }
  [[nodiscard]] Clock::time_point after(double share) const {
    return start_ + paused_ +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double, std::milli>(budget_ms_ * share));
  }
  /// Time that does not count: others were timing.
  void add_pause(Clock::duration time) { paused_ += time; }

 private:
  double budget_ms_;
  Clock::time_point start_ = Clock::now();
  Clock::duration paused_{};
};

/// Makes kernels and proxies of tiles.
class HostMaker {
 public:
  HostMaker(const HostSearchInput& input, const HostSearchStages& stages, RowGroupings& groupings)
      : matrix_(input.matrix),
        options_(input.options),
        watch_(input.watch),
        stages_(stages),
        groupings_(groupings) {}

  [[nodiscard]] std::shared_ptr<const HostArtifact> make(const HostTile& tile, bool proxy) {
    const std::int64_t ldb = options_.ldb > 0 ? options_.ldb : options_.n;
    const HostReductions none{.tiles = false};
    return std::make_shared<HostArtifact>(
        make_host_proxy(plan(tile.m1), tile,
                        {options_.target.isa(), options_.n, tile.pack_b ? 0 : ldb, watch_.cancel},
                        proxy ? stages_.reductions : none, stages_.limits));
  }

  [[nodiscard]] const CompileOptions& options() const { return options_; }
  [[nodiscard]] const CompileContext& watch() const { return watch_; }
  [[nodiscard]] const HostSearchStages& stages() const { return stages_; }

  [[nodiscard]] std::int64_t window(const HostTile& tile) const {
    if (!stages_.reductions.columns) return 0;
    const std::int64_t panel = tile.nv * lanes_of(options_.target.isa());
    return window_columns(tile, panel, {matrix_.nnz(), options_.n, options_.threads},
                          stages_.limits);
  }

 private:
  const KernelPlan& plan(std::int64_t m1) {
    auto found = plans_.find(m1);
    if (found == plans_.end()) {
      const std::int64_t all = std::max<std::int64_t>(matrix_.cols, 1);
      found = plans_.emplace(m1, build_plan(matrix_, groupings_.at(m1), all, watch_.cancel)).first;
    }
    return found->second;
  }

  const CsrMatrix& matrix_;
  const CompileOptions& options_;
  const CompileContext& watch_;
  const HostSearchStages& stages_;
  RowGroupings& groupings_;
  std::map<std::int64_t, KernelPlan> plans_;
};

/// Times tiles of one search, heat after heat.
class Stage {
 public:
  Stage(HostSearch& search, HostMaker& maker, SearchClock& clock, bool proxy)
      : search_(search), maker_(maker), clock_(clock), options_(maker.options()), proxy_(proxy) {}

  /// Each tile gets its result. The time is up when `share` of the budget is spent.
  void run(std::vector<std::size_t> tiles, double share, const TimeHostKernels& race,
           bool several_loads = false) {
    const HostSearchStages& stages = maker_.stages();
    order_by_code(tiles);
    loads_ = several_loads ? k_loads : 1;
    total_ = tiles.size();
    for (std::size_t next = 0; next < tiles.size();) {
      const std::size_t first = next;
      const std::size_t carried = entered_.size();
      std::size_t bytes = 0;
      for (; next < tiles.size() && bytes < stages.batch_bytes && has_time(share); ++next) {
        maker_.watch().check();
        bytes += add(tiles[next], stages.reductions.kernels);
      }
      if (next == first) break;
      out_ = next - (entered_.size() - carried) / loads_;
      time_batch(race, share);
    }
    for (const std::size_t tile : tiles) {
      if (!result(tile)) result(tile) = TuningResult{};
    }
  }

  /// Artifact of the fastest tile that run() timed; null if it timed none.
  [[nodiscard]] std::shared_ptr<const HostArtifact> best_artifact() const {
    return entered_.empty() ? nullptr : contestants_.front().artifact;
  }
  [[nodiscard]] std::size_t best_tile() const { return entered_.front(); }

 private:
  [[nodiscard]] bool has_time(double share) const { return Clock::now() < clock_.after(share); }

  std::optional<TuningResult>& result(std::size_t tile) {
    return proxy_ ? search_.tiles[tile].proxy : search_.tiles[tile].full;
  }

  /// Best-ranked first, but those that share code together.
  void order_by_code(std::vector<std::size_t>& tiles) const {
    std::vector<std::size_t> ordered;
    while (!tiles.empty()) {
      const HostTile& first = search_.tiles[tiles.front()].tile;
      const auto others = std::stable_partition(tiles.begin(), tiles.end(), [&](std::size_t tile) {
        return share_code(first, search_.tiles[tile].tile);
      });
      ordered.insert(ordered.end(), tiles.begin(), others);
      tiles.erase(tiles.begin(), others);
    }
    tiles = std::move(ordered);
  }

  /// Makes or finds a tile's code; bytes that are new.
  std::size_t add(std::size_t tile, bool share) {
    const HostTile& wanted = search_.tiles[tile].tile;
    std::size_t bytes = 0;
    if (latest_ == nullptr || !share || !share_code(latest_tile_, wanted)) {
      latest_ = maker_.make(wanted, proxy_);
      latest_tile_ = wanted;
      bytes = latest_->run_bytes();
    }
    if (const auto size = std::ssize(latest_->text); size > options_.code_budget_bytes) {
      TuningResult failed;
      failed.outcome = TuningOutcome::failed;
      failed.failure =
          fmt::format("{} bytes of code, the budget is {}", size, options_.code_budget_bytes);
      result(tile) = std::move(failed);
      return bytes;
    }
    for (std::size_t load = 0; load < loads_; ++load) {
      maker_.watch().check();
      auto artifact = load == 0 ? latest_ : std::make_shared<const HostArtifact>(*latest_);
      if (load > 0) bytes += artifact->run_bytes();
      contestants_.push_back({std::move(artifact), wanted, proxy_ ? maker_.window(wanted) : 0});
      entered_.push_back(tile);
    }
    return bytes;
  }

  /// Races who has entered; only the best stays entered.
  void time_batch(const TimeHostKernels& race, double share) {
    const auto asked = Clock::now();
    const Turns::Place turn = maker_.watch().take_timing_turn();
    clock_.add_pause(Clock::now() - asked);
    TuningOptions options;
    options.check = [this] { maker_.watch().check(); };
    const std::chrono::duration<double, std::milli> left = clock_.after(share) - Clock::now();
    options.budget_ms = std::max(0.0, left.count());
    options.max_rounds = proxy_ ? k_proxy_rounds : k_full_rounds;
    options.relative_error_goal = k_host_error_goal;
    if (options_.on_search_progress) {
      options.progress = [this](const TuningProgress& progress) { report(progress); };
    }
    std::vector<TuningResult> results = middle_loads(race(contestants_, options));
    latest_ = nullptr;
    for (std::size_t i = 0; i < results.size(); ++i) {
      std::optional<TuningResult>& known = result(entered_[i]);
      if (results[i].timing.samples > 0) search_.tiles[entered_[i]].confirmed = loads_ > 1;
      // The best of the heats before keeps its time where this one ended without any.
      if (known && results[i].outcome == TuningOutcome::not_reached) results[i] = *known;
      known = results[i];
    }
    const std::ptrdiff_t winner = winner_of(results);
    if (winner == k_no_winner) {
      contestants_.clear();
      entered_.clear();
      return;
    }
    contestants_ = {contestants_[static_cast<std::size_t>(winner)]};
    entered_ = {entered_[static_cast<std::size_t>(winner)]};
  }

  /// One result for each tile: of its loads that with the middle time. Keeps one contestant each.
  std::vector<TuningResult> middle_loads(const std::vector<TuningResult>& results) {
    std::vector<TuningResult> middles;
    std::vector<HostTuningCandidate> contestants;
    std::vector<std::size_t> entered;
    for (std::size_t i = 0; i < results.size();) {
      std::vector<const TuningResult*> loads;
      contestants.push_back(contestants_[i]);
      entered.push_back(entered_[i]);
      for (; i < results.size() && entered_[i] == entered.back(); ++i) loads.push_back(&results[i]);
      const auto middle = loads.begin() + std::ssize(loads) / 2;
      std::nth_element(loads.begin(), middle, loads.end(), [](const auto* a, const auto* b) {
        return std::pair(a->timing.samples == 0, a->timing.median_us) <
               std::pair(b->timing.samples == 0, b->timing.median_us);
      });
      middles.push_back(**middle);
    }
    contestants_ = std::move(contestants);
    entered_ = std::move(entered);
    return middles;
  }

  void report(const TuningProgress& progress) const {
    SearchProgress now;
    now.stage = proxy_ ? "proxies" : "kernels";
    now.done = out_ + progress.settled / loads_;
    now.total = total_;
    now.best = progress.best;
    now.best_us = progress.best_us;
    now.seconds_left = progress.ms_left / 1e3;
    options_.on_search_progress(now);
  }

  HostSearch& search_;
  HostMaker& maker_;
  SearchClock& clock_;
  const CompileOptions& options_;
  bool proxy_;
  std::size_t loads_ = 1;
  std::size_t total_ = 0;  ///< tiles of the stage
  std::size_t out_ = 0;    ///< of them, those that are not new to this heat or could not enter it
  std::shared_ptr<const HostArtifact> latest_;
  HostTile latest_tile_;
  std::vector<HostTuningCandidate> contestants_;
  std::vector<std::size_t> entered_;  ///< tiles of the contestants
};

/// The heuristic's choice first, then the ranking. By estimates: grouping takes longer than
/// anything else here, and only what is timed is worth it.
void rank(HostSearch& search, const HostSearchInput& input) {
  const Cancellation& cancel = input.watch.cancel;
  const EstimatedGrouping estimated(input.matrix, cancel);
  const DescribeGrouping describe = [&](std::int64_t m1) { return estimated.statistics(m1); };
  const HostDeviceInfo& limits = input.limits;
  const HostTile& heuristic = input.heuristic;
  search.space = enumerate_host_tiles(input.matrix, input.options, limits, describe, cancel);
  std::vector<TileCandidate> survivors = search.space.survivors();
  const bool has = std::ranges::any_of(
      survivors, [&](const TileCandidate& candidate) { return candidate.tile == heuristic; });
  if (!has) {
    survivors.push_back(
        examine_host_tile(input.matrix, heuristic, input.options, limits, describe(heuristic.m1)));
  }
  const HostWork work = host_work(input.matrix, input.options.n, input.options.threads, cancel);
  search.ranked_by = ranked_by(input.model);
  for (const RankedHostTile& ranked :
       rank_host_tiles(std::move(survivors), work, limits, input.model)) {
    search.tiles.push_back(
        {ranked.candidate.tile, ranked.candidate.grouping, ranked.score, {}, {}, false});
  }
  // Not that of std::ranges, whose result clang 14 does not parse.
  std::stable_partition(search.tiles.begin(), search.tiles.end(),
                        [&](const SearchedHostTile& tile) { return tile.tile == heuristic; });
}

/// The best `count` of `tiles` by one of their times, and the heuristic's.
std::vector<std::size_t> finalists_of(const HostSearch& search, std::vector<std::size_t> tiles,
                                      std::size_t count,
                                      std::optional<TuningResult> SearchedHostTile::*time) {
  std::erase_if(tiles, [&](std::size_t tile) {
    const TuningResult& result = *(search.tiles[tile].*time);
    return result.outcome == TuningOutcome::failed || result.timing.samples == 0;
  });
  // Those that were dropped early have uncertain medians; they only fill up.
  const auto worse = [&](std::size_t left, std::size_t right) {
    const TuningResult& a = *(search.tiles[left].*time);
    const TuningResult& b = *(search.tiles[right].*time);
    return std::pair(a.outcome, a.timing.median_us) < std::pair(b.outcome, b.timing.median_us);
  };
  std::ranges::stable_sort(tiles, worse);
  if (tiles.size() > count) tiles.resize(count);
  if (std::ranges::find(tiles, std::size_t{0}) == tiles.end()) tiles.push_back(0);
  return tiles;
}

/// Takes what a stage found, if it timed anything.
void take_best(HostSearch& search, const Stage& stage) {
  if (stage.best_artifact() == nullptr) return;
  search.artifact = stage.best_artifact();
  search.chosen = stage.best_tile();
  search.timed = true;
}

/// Whole kernels of the tiles; where they are many once each, then the best few again.
void time_in_full(HostSearch& search, HostMaker& maker, const std::vector<std::size_t>& tiles,
                  const TimeHostKernels& race, SearchClock& clock) {
  const bool many = tiles.size() > k_few_tiles;
  Stage stage(search, maker, clock, false);
  stage.run(tiles, many ? k_full_share : 1, race, !many);
  take_best(search, stage);
  if (!many || !search.timed) return;
  const std::vector<SearchedHostTile> once = search.tiles;
  Stage finals(search, maker, clock, false);
  finals.run(finalists_of(search, tiles, maker.stages().confirmed, &SearchedHostTile::full), 1,
             race, true);
  if (finals.best_artifact() == nullptr) search.tiles = once;
  take_best(search, finals);
}

}  // namespace

HostSearchStages search_stages(const CompileOptions& options, std::int64_t nnz) {
  constexpr std::size_t k_all = 0;
  HostSearchStages stages;
  stages.contenders = options.search == SearchMode::ranked
                          ? static_cast<std::size_t>(options.search_contenders)
                          : k_all;
  stages.proxies = options.search != SearchMode::exhaustive &&
                   static_cast<double>(nnz) * static_cast<double>(options.n) >= k_proxies_pay_nnz_n;
  return stages;
}

HostSearch search_host_tile(const HostSearchInput& input, const HostSearchStages& stages,
                            const TimeHostKernels& race) {
  const CsrMatrix& matrix = input.matrix;
  const CompileOptions& options = input.options;
  SearchClock clock(options.search_budget_ms);
  HostSearch search;
  RowGroupings groupings(matrix, options.reorder, input.watch.cancel);
  rank(search, input);
  std::vector<std::size_t> tiles(search.tiles.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = i;
  if (stages.contenders > 0 && tiles.size() > stages.contenders) tiles.resize(stages.contenders);
  for (const std::size_t tile : tiles) {
    search.tiles[tile].grouping = groupings.statistics(search.tiles[tile].tile.m1);
  }
  search.rank_ms = ms_since(clock.start());
  HostMaker maker(input, stages, groupings);
  search.proxies = stages.proxies && (stages.finalists == 0 || tiles.size() > stages.finalists + 1);
  if (search.proxies) {
    const auto begin = Clock::now();
    Stage(search, maker, clock, true).run(tiles, k_proxy_share, race);
    search.proxy_ms = ms_since(begin);
    if (stages.finalists > 0) {
      tiles = finalists_of(search, std::move(tiles), stages.finalists, &SearchedHostTile::proxy);
    }
  }
  const auto begin = Clock::now();
  time_in_full(search, maker, tiles, race, clock);
  if (!search.timed) search.artifact = maker.make(search.tiles[0].tile, false);
  search.artifact =
      std::make_shared<HostArtifact>(with_walk(*search.artifact, search.tiles[search.chosen].tile));
  search.full_ms = ms_since(begin);
  return search;
}

}  // namespace spjit
