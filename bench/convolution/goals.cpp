#include "bench/convolution/goals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "bench/convolution/conv_peer.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_goal_network = "resnet50";
constexpr const char* k_own = "spjit";
constexpr const char* k_own_pixels = "spjit-nhwc";

/// A way to call spjit, and how many images at once.
struct Subject {
  const char* library;
  std::int64_t batch;

  /// The product beside it: in the same layout.
  [[nodiscard]] std::string product() const {
    const std::string name = k_explicit_im2col;
    return library == k_own ? name : name + k_nhwc_suffix;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{}, batch {}", library == k_own ? "NCHW" : "NHWC", batch);
  }
};

using Figure = std::function<std::optional<double>(const ConvCase&)>;

/// The other's time over the subject's.
std::optional<double> ratio(const ConvTiming* other, const ConvTiming* subject) {
  if (other == nullptr || subject == nullptr || subject->time.median_us <= 0) return {};
  return other->time.median_us / subject->time.median_us;
}

/// A goal over cases.
struct ConvGoal {
  std::string text;
  double wanted = 0;
  bool at_least = true;  ///< else: at most
};

std::string describe_layer(const ConvCase& one) {
  return fmt::format("{}-{} {} filters, {}, batch={} threads={} {}", one.network, one.sparsity,
                     one.filters, to_string(one.shape), one.batch, one.threads,
                     one.hot ? "hot" : "cold");
}

GoalResult judged(const ConvGoal& goal, double measured, std::string where) {
  const bool met = goal.at_least ? measured >= goal.wanted : measured <= goal.wanted;
  return {goal.text, measured,         goal.wanted,
          "x",       std::move(where), met ? GoalResult::State::met : GoalResult::State::not_met};
}

GoalResult without_data(const ConvGoal& goal) {
  return {goal.text, 0, goal.wanted, "x", "no case", GoalResult::State::no_data};
}

GoalResult mean_of(const ConvGoal& goal, std::span<const ConvCase> cases, const Figure& figure) {
  double logarithms = 0;
  double layers = 0;
  for (const ConvCase& one : cases) {
    const std::optional<double> value = figure(one);
    if (!value) continue;
    logarithms += static_cast<double>(one.layers) * std::log(*value);
    layers += static_cast<double>(one.layers);
  }
  if (layers == 0) return without_data(goal);
  return judged(goal, std::exp(logarithms / layers), fmt::format("{:.0f} layers", layers));
}

GoalResult worst_of(const ConvGoal& goal, std::span<const ConvCase> cases, const Subject& subject,
                    const Figure& figure) {
  std::optional<double> worst;
  std::string where;
  std::int64_t missed = 0;
  std::int64_t not_dense = 0;
  for (const ConvCase& one : cases) {
    const std::optional<double> value = figure(one);
    if (!value) continue;
    const std::string& detail = one.find(subject.library)->detail;
    if (*value < goal.wanted) {
      missed += one.layers;
      not_dense += detail.starts_with("dense") ? 0 : one.layers;
    }
    if (worst && *value >= *worst) continue;
    worst = value;
    where = fmt::format("{}: {}", describe_layer(one), detail);
  }
  if (!worst) return without_data(goal);
  return judged(
      goal, *worst,
      fmt::format("{}; {} layers below, {} of them not by family dense", where, missed, not_dense));
}

/// Cold cases of the goals' network; of `sparsity` percent unless that is 0.
bool counts(const ConvCase& one, const Subject& subject, int threads, int sparsity) {
  return one.network == k_goal_network && !one.hot && one.batch == subject.batch &&
         one.threads == threads && (sparsity == 0 || one.sparsity == sparsity);
}

Figure against_dense(const Subject& subject, int sparsity) {
  return [=](const ConvCase& one) -> std::optional<double> {
    if (!counts(one, subject, 1, sparsity)) return {};
    return ratio(one.dense(), one.find(subject.library));
  };
}

Figure against_im2col(const Subject& subject) {
  return [=](const ConvCase& one) -> std::optional<double> {
    if (!counts(one, subject, 1, 0) || one.kernel() != "3x3") return {};
    return ratio(one.find(subject.product()), one.find(subject.library));
  };
}

/// Time over that of the plain product.
Figure over_spmm(const Subject& subject) {
  return [=](const ConvCase& one) -> std::optional<double> {
    if (!counts(one, subject, 1, 0) || one.kernel() != "1x1") return {};
    return ratio(one.find(subject.library), one.find(subject.product()));
  };
}

/// The timing of a case whose threads are compared.
using Scaled = std::function<const ConvTiming*(const ConvCase&)>;

Figure of_two_threads(const Subject& subject, std::span<const ConvCase> cases,
                      const Scaled& timing) {
  return [=](const ConvCase& two) -> std::optional<double> {
    if (!counts(two, subject, 2, 0)) return {};
    for (const ConvCase& one : cases) {
      const bool same = counts(one, subject, 1, two.sparsity) && one.filters == two.filters &&
                        one.shape == two.shape;
      if (same) return ratio(timing(one), timing(two));
    }
    return {};
  };
}

/// Beside it what oneDNN's threads gain in the same runs: the second CPU may be busy with other
/// work.
GoalResult two_threads(const ConvGoal& goal, const Subject& subject,
                       std::span<const ConvCase> cases) {
  const Scaled own = [=](const ConvCase& one) { return one.find(subject.library); };
  const Scaled dense = [](const ConvCase& one) { return one.dense(); };
  GoalResult result = mean_of(goal, cases, of_two_threads(subject, cases, own));
  const GoalResult beside = mean_of(goal, cases, of_two_threads(subject, cases, dense));
  if (beside.state != GoalResult::State::no_data) {
    result.where += fmt::format("; oneDNN's fastest: {:.2f} x", beside.measured);
  }
  return result;
}

void add_goals(const Subject& subject, std::span<const ConvCase> cases,
               std::vector<GoalResult>& goals) {
  const auto text = [&](const char* goal) { return fmt::format("{}: {}", subject.text(), goal); };
  goals.push_back(
      mean_of({text("90 % sparse: mean >= 2.5 x oneDNN"), 2.5}, cases, against_dense(subject, 90)));
  goals.push_back(
      mean_of({text("80 % sparse: mean >= 1.5 x oneDNN"), 1.5}, cases, against_dense(subject, 80)));
  goals.push_back(worst_of({text("90 % sparse: every layer >= oneDNN"), 1}, cases, subject,
                           against_dense(subject, 90)));
  goals.push_back(
      mean_of({text("3x3: mean >= 1.3 x im2col and spmm"), 1.3}, cases, against_im2col(subject)));
  goals.push_back(
      mean_of({text("1x1: mean time <= 1.03 x spmm"), 1.03, false}, cases, over_spmm(subject)));
  goals.push_back(two_threads({text("two threads: mean >= 1.8 x one"), 1.8}, subject, cases));
}

/// The first `most` by speed-up, ascending.
std::vector<ConvSpeedup> lowest(std::vector<ConvSpeedup> all, std::size_t most) {
  std::ranges::stable_sort(all, {}, &ConvSpeedup::speedup);
  all.resize(std::min(all.size(), most));
  return all;
}

/// `compare(case, subject, layout's suffix)` adds what it finds.
template <class Compare>
std::vector<ConvSpeedup> compared(std::span<const ConvCase> cases, std::size_t most,
                                  const Compare& compare) {
  std::vector<ConvSpeedup> all;
  for (const ConvCase& one : cases) {
    for (const auto& [name, suffix] : {std::pair{k_own, ""}, {k_own_pixels, "-nhwc"}}) {
      const ConvTiming* const own = one.find(name);
      const ConvTiming* const other = own == nullptr ? nullptr : compare(one, std::string(suffix));
      const std::optional<double> value = ratio(other, own);
      if (!value) continue;
      all.push_back({*value, fmt::format("{}: {} {:.0f} us ({}), {} {:.0f} us", describe_layer(one),
                                         name, own->time.median_us, own->detail, other->library,
                                         other->time.median_us)});
    }
  }
  return lowest(std::move(all), most);
}

}  // namespace

std::vector<GoalResult> evaluate_conv_goals(std::span<const ConvCase> cases) {
  std::vector<GoalResult> goals;
  for (const std::int64_t batch : {1, 8}) {
    for (const char* library : {k_own, k_own_pixels}) {
      add_goals({library, batch}, cases, goals);
    }
  }
  return goals;
}

std::vector<ConvSpeedup> worst_against_dense(std::span<const ConvCase> cases, std::size_t most) {
  return compared(cases, most,
                  [](const ConvCase& one, const std::string& /*suffix*/) { return one.dense(); });
}

std::vector<ConvSpeedup> worst_choices(std::span<const ConvCase> cases, std::size_t most) {
  constexpr std::array k_families = {"dense", "compact", "unrolled", "csr"};
  return compared(cases, most, [&](const ConvCase& one, const std::string& suffix) {
    const ConvTiming* best = nullptr;
    for (const char* family : k_families) {
      const ConvTiming* const timing = one.find(family + suffix);
      if (timing == nullptr) continue;
      if (best == nullptr || timing->time.median_us < best->time.median_us) best = timing;
    }
    return best;
  });
}

}  // namespace spjit::bench
