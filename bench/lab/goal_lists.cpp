#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/host_cpu.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "bench/lab/goals.hpp"

namespace spjit::bench {
namespace {

using Over = Goal::Over;
using Value = std::function<std::optional<double>(const Case&)>;

/// The other's time over the subject's.
std::optional<double> ratio(const WayTiming* other, const WayTiming* subject) {
  if (other == nullptr || subject == nullptr || subject->time.median_us <= 0) return {};
  return other->time.median_us / subject->time.median_us;
}

std::string first_choice(const WayTiming& timing) {
  return timing.chosen.empty() ? "" : timing.chosen.front();
}

// Of the host.

constexpr const char* k_own = "spjit";

/// DLMC's layers reach their nominal sparsity to a tenth of a per cent.
bool is_sparse(const Case& one, double sparsity) {
  return std::abs(one.sparsity - sparsity) < 0.005;
}

bool has_shape(const Case& one, std::int64_t rows, std::int64_t cols) {
  return one.rows == rows && one.cols == cols;
}

Goal host_goal(Goal goal, const Value& value) {
  goal.figure = [value](const Case& one) -> std::optional<Figure> {
    const std::optional<double> measured = value(one);
    if (!measured) return {};
    return Figure{*measured, describe(one)};
  };
  return goal;
}

/// 2 nnz n over the time and the peak of the cores used.
std::optional<double> percent_of_peak(const Case& one) {
  const WayTiming* const own = one.find(k_own);
  if (own == nullptr) return {};
  const double gflops =
      2e-3 * static_cast<double>(one.nnz) * static_cast<double>(one.n) / own->time.median_us;
  const double peak =
      one.facts.at("peak_gflops").get<double>() * std::min(one.threads, usable_cpus());
  return 100 * gflops / peak;
}

Value fact(const char* name, const std::function<bool(const Case&)>& counts) {
  return [=](const Case& one) -> std::optional<double> {
    if (!counts(one)) return {};
    return one.facts.at(name).get<double>();
  };
}

Value over_dense(const std::function<bool(const Case&)>& counts) {
  return [=](const Case& one) -> std::optional<double> {
    if (!counts(one)) return {};
    return ratio(one.find("openblas"), one.find(k_own));
  };
}

void add_peak_goals(std::vector<Goal>& goals) {
  const auto add = [&](double sparsity, std::int64_t rows, std::int64_t cols, std::int64_t n,
                       double wanted) {
    const auto value = [=](const Case& one) -> std::optional<double> {
      const bool counts =
          one.threads == 1 && one.n == n && has_shape(one, rows, cols) && is_sparse(one, sparsity);
      return counts ? percent_of_peak(one) : std::nullopt;
    };
    goals.push_back(host_goal({fmt::format("{} x {}, {:.0f} % sparse, n = {}: >= {:.0f} % of peak",
                                           rows, cols, 100 * sparsity, n, wanted),
                               wanted, "% of peak"},
                              value));
  };
  for (const double sparsity : {0.5, 0.7, 0.8, 0.9}) add(sparsity, 512, 512, 128, 95);
  add(0.95, 512, 512, 128, 85);
  for (const auto& [rows, cols] : {std::pair{2048, 512}, {512, 2048}, {2048, 1024}}) {
    for (const double sparsity : {0.9, 0.95}) add(sparsity, rows, cols, 512, 75);
  }
}

void add_speedup_goals(std::span<const Case> cases, std::vector<Goal>& goals) {
  goals.push_back(
      host_goal({"90 % sparse: geometric mean >= 8 x OpenBLAS", 8, "x", true, Over::mean},
                over_dense([](const Case& one) {
                  return one.threads == 1 && is_sparse(one, 0.9) && one.nnz > 0;
                })));
  const Value two_threads = [cases](const Case& two) -> std::optional<double> {
    if (two.threads != 2 || two.nnz <= 50'000) return {};
    for (const Case& one : cases) {
      const bool same = one.threads == 1 && one.workload == two.workload && one.n == two.n;
      if (same) return ratio(one.find(k_own), two.find(k_own));
    }
    return {};
  };
  goals.push_back(
      host_goal({"two threads, over 50k nonzeros: >= 1.8 x one thread", 1.8}, two_threads));
  goals.push_back(host_goal({"the same, geometric mean", 1.8, "x", true, Over::mean}, two_threads));
}

void add_compile_goals(std::vector<Goal>& goals) {
  constexpr std::int64_t k_enough_nonzeros = 20'000;  // below, a rate is the clock's
  const auto add = [&](const char* text, double wanted, const Value& value) {
    goals.push_back(host_goal({text, wanted, "ms", false}, value));
  };
  const auto is_usual = [](const Case& one) {
    return has_shape(one, 512, 512) && is_sparse(one, 0.9);
  };
  const auto has_2m = [](const Case& one) { return one.nnz >= 1'999'000; };
  add("encoding: <= 10 ms per 100k nonzeros", 10, [](const Case& one) -> std::optional<double> {
    if (one.facts.at("code_bytes") == 0 || one.nnz < k_enough_nonzeros) return {};
    return one.facts.at("encode_ms").get<double>() * 1e5 / static_cast<double>(one.nnz);
  });
  add("cold compile of 512 x 512, 90 % sparse, all in: <= 50 ms", 50,
      fact("cold_compile_ms", is_usual));
  add("2M nonzeros compile: <= 2 s", 2000, fact("cold_compile_ms", has_2m));
  goals.push_back(host_goal({"2M nonzeros: faster than dense", 1}, over_dense(has_2m)));
  add("warm cache hit of 512 x 512, 90 % sparse: <= 1 ms", 1, fact("warm_hit_ms", is_usual));
  add("warm cache hit of any DLMC layer: <= 1 ms", 1,
      fact("warm_hit_ms", [](const Case& one) { return one.facts.at("source") == "dlmc"; }));
}

// Of layers.

/// What a figure is to be, of ways whose names begin so.
struct LayerGoal {
  const char* comparison;  ///< of both layouts
  const char* way;
  std::optional<double> mean;
  std::optional<double> worst;
  double least_nnz_of_row = 0;  ///< of cases that count
};

constexpr const char* k_prepare = "prepare 1M values";

// A goal that is one figure is held against the mean; what is prepared against the worst.
const LayerGoal k_layer_goals[] = {{"layout", "tokens", 1.08, 1.25},
                                   {"runtime-n", "any n", 1.03, 1.15},
                                   {"epilogue", "fused", 1.05, std::nullopt, 40},
                                   {"epilogue", "apart", std::nullopt, std::nullopt, 40},
                                   {"batch", "8 x 128", 1.00, std::nullopt},
                                   {"values", "buffer", 1.03, std::nullopt},
                                   {"values", k_prepare, std::nullopt, 5.0}};

LayerGoal layer_goal_of(const std::string& comparison, const std::string& way) {
  for (const LayerGoal& goal : k_layer_goals) {
    if (comparison.starts_with(goal.comparison) && way.starts_with(goal.way)) return goal;
  }
  return {"", "", std::nullopt, std::nullopt};
}

/// One way against the first, of so many threads, cold or hot.
struct LayerSubject {
  std::string comparison;
  std::string way;
  int threads;
  bool hot;
};

std::optional<Figure> layer_figure(const LayerSubject& subject, const Case& one) {
  const bool counts =
      one.comparison == subject.comparison && one.threads == subject.threads &&
      one.hot == subject.hot &&
      one.nnz_of_row() >= layer_goal_of(subject.comparison, subject.way).least_nnz_of_row;
  if (!counts || one.timings.empty()) return {};
  const auto where = [&](const WayTiming& timing) {
    return fmt::format("{} {} ({})", describe(one), fmt::join(timing.chosen, "+"),
                       fmt::join(one.timings.front().chosen, "+"));
  };
  if (subject.way == k_prepare) {
    for (const WayTiming& timing : one.timings) {
      if (!timing.values_ms || one.nnz == 0) continue;
      return Figure{*timing.values_ms * 1e6 / static_cast<double>(one.nnz), where(timing)};
    }
    return {};
  }
  const std::optional<double> ratio = one.ratio(subject.way);
  if (!ratio) return {};
  return Figure{*ratio, where(*one.find(subject.way)), 1, one.error(subject.way)};
}

/// Every way that was timed, in the order of the cases; those of one thread first, cold ones first.
std::vector<LayerSubject> layer_subjects(std::span<const Case> cases) {
  std::map<std::string, std::size_t> places;
  std::map<std::tuple<std::size_t, int, bool>, LayerSubject> subjects;
  const auto add = [&](const Case& one, const std::string& way) {
    const LayerSubject subject{one.comparison, way, one.threads, one.hot};
    if (!layer_figure(subject, one)) return;
    const std::size_t place =
        places.try_emplace(one.comparison + '\n' + way, places.size()).first->second;
    subjects.try_emplace({place, one.threads, one.hot}, subject);
  };
  for (const Case& one : cases) {
    for (std::size_t way = 1; way < one.timings.size(); ++way) add(one, one.timings[way].way);
    add(one, k_prepare);
  }
  std::vector<LayerSubject> all;
  all.reserve(subjects.size());
  for (auto& [key, subject] : subjects) all.push_back(std::move(subject));
  return all;
}

// Of convolutions.

constexpr const char* k_conv_network = "resnet50-";

/// A way to call spjit, and how many images at once.
struct ConvSubject {
  bool has_pixels;  ///< NHWC
  std::int64_t batch;

  [[nodiscard]] std::string suffix() const { return has_pixels ? k_nhwc_suffix : ""; }
  [[nodiscard]] std::string library() const { return k_own + suffix(); }
  /// The product beside it: in the same layout.
  [[nodiscard]] std::string product() const { return k_explicit_im2col + suffix(); }
  /// Cold cases of the goals' network; of `sparsity` percent unless that is 0.
  [[nodiscard]] bool counts(const Case& one, int threads, int sparsity) const {
    const bool wanted = sparsity == 0 ? one.workload.starts_with(k_conv_network)
                                      : one.workload == k_conv_network + std::to_string(sparsity);
    return wanted && !one.hot && one.n == batch && one.threads == threads;
  }
};

/// The fastest of oneDNN's ways; null if none was timed.
const WayTiming* fastest_dense(const Case& one) {
  const WayTiming* fastest = nullptr;
  for (const WayTiming& timing : one.timings) {
    if (!timing.way.starts_with(k_dense_convolution) || !timing.failed.empty()) continue;
    const bool faster = fastest == nullptr || timing.time.median_us < fastest->time.median_us;
    if (faster) fastest = &timing;
  }
  return fastest;
}

using Pair = std::pair<const WayTiming*, const WayTiming*>;  // ratio: first over second
using PairOf = std::function<Pair(const Case&)>;

Goal conv_goal(Goal goal, const std::string& library, const PairOf& pair) {
  goal.counted = "layers";
  goal.figure = [=](const Case& one) -> std::optional<Figure> {
    const auto [above, below] = pair(one);
    const std::optional<double> value = ratio(above, below);
    if (!value) return {};
    std::vector<std::string> words;
    for (const WayTiming* timing : {above, below}) {
      words.push_back(fmt::format("{} {:.0f} us", timing->way, timing->time.median_us));
      if (timing->way == library) words.back() += fmt::format(" ({})", first_choice(*timing));
    }
    return Figure{*value, fmt::format("{}: {}", describe(one), fmt::join(words, " over ")),
                  static_cast<double>(one.layers)};
  };
  return goal;
}

/// What one thread takes over what two take, of the same layer.
PairOf of_two_threads(const ConvSubject& subject, std::span<const Case> cases,
                      const std::function<const WayTiming*(const Case&)>& timing) {
  return [=](const Case& two) -> Pair {
    if (!subject.counts(two, 2, 0)) return {};
    for (const Case& one : cases) {
      const bool same = subject.counts(one, 1, 0) && one.workload == two.workload &&
                        one.rows == two.rows && one.facts.at("shape") == two.facts.at("shape");
      if (same) return {timing(one), timing(two)};
    }
    return {};
  };
}

void add_conv_goals(const ConvSubject& subject, std::span<const Case> cases,
                    std::vector<Goal>& goals) {
  const std::string own = subject.library();
  const auto against_dense = [=](int sparsity, bool with_dense_family) -> PairOf {
    return [=](const Case& one) -> Pair {
      const WayTiming* const timing = one.find(own);
      if (timing == nullptr || !subject.counts(one, 1, sparsity)) return {};
      if (!with_dense_family && first_choice(*timing).starts_with("dense")) return {};
      return {fastest_dense(one), timing};
    };
  };
  const PairOf im2col = [=](const Case& one) -> Pair {
    if (!subject.counts(one, 1, 0) || one.facts.at("kernel") != "3x3") return {};
    return {one.find(subject.product()), one.find(own)};
  };
  const PairOf product = [=](const Case& one) -> Pair {
    if (!subject.counts(one, 1, 0) || one.facts.at("kernel") != "1x1") return {};
    return {one.find(own), one.find(subject.product())};
  };
  const std::string of =
      fmt::format("{}, batch {}: ", subject.has_pixels ? "NHWC" : "NCHW", subject.batch);
  const auto add = [&](Goal goal, const PairOf& pair) {
    goal.text.insert(0, of);
    goals.push_back(conv_goal(std::move(goal), own, pair));
  };
  add({"90 % sparse: mean >= 2.5 x oneDNN", 2.5, "x", true, Over::mean}, against_dense(90, true));
  add({"80 % sparse: mean >= 1.5 x oneDNN", 1.5, "x", true, Over::mean}, against_dense(80, true));
  add({"90 % sparse: every layer >= oneDNN", 1}, against_dense(90, true));
  add({"90 % sparse: layers not by family dense"}, against_dense(90, false));
  add({"3x3: mean >= 1.3 x im2col and spmm", 1.3, "x", true, Over::mean}, im2col);
  add({"1x1: mean time <= 1.03 x spmm", 1.03, "x", false, Over::mean}, product);
  add({"two threads: mean >= 1.8 x one", 1.8, "x", true, Over::mean},
      of_two_threads(subject, cases, [=](const Case& one) { return one.find(own); }));
  // The second CPU may be busy with other work: then oneDNN gains as little.
  goals.push_back(conv_goal({of + "two threads: oneDNN's fastest", {}, "x", true, Over::mean}, own,
                            of_two_threads(subject, cases, fastest_dense)));
}

/// Over layers of all networks.
void add_conv_lists(const std::string& suffix, std::vector<Goal>& goals) {
  const std::string own = k_own + suffix;
  goals.push_back(conv_goal({own + ": least times oneDNN's fastest"}, own, [=](const Case& one) {
    return Pair{fastest_dense(one), one.find(own)};
  }));
  goals.push_back(
      conv_goal({own + ": least times the fastest family by itself"}, own, [=](const Case& one) {
        const WayTiming* best = nullptr;
        for (const char* family : {"dense", "compact", "unrolled", "csr"}) {
          const WayTiming* const timing = one.find(family + suffix);
          if (timing == nullptr) continue;
          if (best == nullptr || timing->time.median_us < best->time.median_us) best = timing;
        }
        return Pair{best, one.find(own)};
      }));
}

}  // namespace

std::vector<Goal> host_goals(std::span<const Case> cases) {
  std::vector<Goal> goals;
  add_peak_goals(goals);
  add_speedup_goals(cases, goals);
  add_compile_goals(goals);
  return goals;
}

std::vector<Goal> layer_goals(std::span<const Case> cases) {
  std::vector<Goal> goals;
  for (const LayerSubject& subject : layer_subjects(cases)) {
    const LayerGoal wanted = layer_goal_of(subject.comparison, subject.way);
    for (const Over over : {Over::mean, Over::worst}) {
      const bool is_mean = over == Over::mean;
      Goal& goal = goals.emplace_back();
      goal.text =
          fmt::format("{}: {}, t={} {}, {}", subject.comparison, subject.way, subject.threads,
                      subject.hot ? "hot" : "cold", is_mean ? "mean" : "worst");
      goal.wanted = is_mean ? wanted.mean : wanted.worst;
      if (goal.wanted) goal.text += fmt::format(" <= {:.2f}", *goal.wanted);
      goal.unit = subject.way == k_prepare ? "ms" : "x";
      goal.at_least = false;
      goal.over = over;
      goal.figure = [subject](const Case& one) { return layer_figure(subject, one); };
      goal.about = {{"comparison", subject.comparison},
                    {"way", subject.way},
                    {"threads", subject.threads},
                    {"caches", subject.hot ? "hot" : "cold"}};
    }
  }
  return goals;
}

std::vector<Goal> conv_goals(std::span<const Case> cases) {
  std::vector<Goal> goals;
  for (const std::int64_t batch : {1, 8}) {
    for (const bool has_pixels : {false, true}) {
      add_conv_goals({has_pixels, batch}, cases, goals);
    }
  }
  for (const char* suffix : {"", k_nhwc_suffix}) add_conv_lists(suffix, goals);
  return goals;
}

}  // namespace spjit::bench
