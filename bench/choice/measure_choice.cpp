#include "bench/choice/measure_choice.hpp"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "base/call_timer.hpp"
#include "base/timing.hpp"
#include "bench/host/buffers.hpp"
#include "plan/workload.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/kernel.hpp"

namespace spjit::bench {
namespace {

/// B and one C, of which the first kernel's bits are kept.
class Operands {
 public:
  Operands(const CsrMatrix& matrix, std::int64_t n)
      : floats_(static_cast<std::size_t>(matrix.rows * n)),
        input_{nullptr, matrix.cols, n, n},
        b_(matrix.cols * n, 0.0F),
        c_(matrix.rows * n, -1.0F) {
    fill_operand(b_.data(), matrix.cols, n);
    input_.data = b_.data();
  }

  void run(const Kernel& kernel) { kernel.run(b_.data(), c_.data()); }
  [[nodiscard]] const InputRows& input() const noexcept { return input_; }

  /// Whether C has the bits that it had the first time.
  [[nodiscard]] bool is_as_first() {
    if (first_.empty()) first_.assign(c_.data(), c_.data() + floats_);
    return std::memcmp(first_.data(), c_.data(), floats_ * sizeof(float)) == 0;
  }

 private:
  std::size_t floats_;
  InputRows input_;
  AlignedFloats b_;
  AlignedFloats c_;
  std::vector<float> first_;
};

/// Nothing where the family does not take the product.
std::vector<Kernel> kernel_of(const KernelFamily& family, const ChoiceCase& what,
                              const CsrMatrix& matrix, const Target& target) {
  CompileOptions options;
  options.target = target;
  options.policy.hot = what.hot;
  options.policy.family = family.name();
  CacheOptions no_cache;
  no_cache.enabled = false;
  try {
    return {Compiler(options, no_cache).compile({.a = matrix, .n = what.n})};
  } catch (const NotSupported&) {
    return {};
  }
}

std::vector<TimingResult> times_of(const std::vector<TimingCandidate>& candidates, bool hot,
                                   const CallTimer& timer, const ChoiceTiming& timing) {
  if (!hot) {
    return measure_single_calls(candidates, timer,
                                {.min_samples = timing.min_samples, .budget_ms = timing.budget_ms});
  }
  TimingOptions options;
  options.warm_up_ms = 1;
  options.min_batch_us = 50;
  options.min_samples = timing.min_samples;
  options.budget_ms = timing.budget_ms;
  return measure_interleaved(candidates, options);
}

}  // namespace

ChoiceResult measure_choice(const ChoiceCase& what, const Target& target, CacheFlush& caches,
                            const ChoiceTiming& timing) {
  const CsrMatrix matrix = matrix_of(what);
  Operands operands(matrix, what.n);
  std::vector<Kernel> kernels;
  for (const KernelFamily* family : families_for(target)) {
    if (!family->races()) continue;  // the reference is there to be right
    for (Kernel& kernel : kernel_of(*family, what, matrix, target)) {
      operands.run(kernel);
      if (!operands.is_as_first()) {
        throw Error(fmt::format("{}: the bits of {} are not those of {}", to_string(what),
                                family->name(), kernels.front().info().family));
      }
      kernels.push_back(std::move(kernel));
    }
  }
  std::vector<TimingCandidate> candidates;
  candidates.reserve(kernels.size());
  for (const Kernel& kernel : kernels) {
    candidates.push_back({kernel.info().family, [&] { operands.run(kernel); }});
  }
  const CallTimer timer([&] { caches.flush(); }, operands.input());
  Problem problem;
  problem.a = matrix;
  problem.n = what.n;
  ChoiceResult result{what, matrix.nnz(), workload_of(problem, 1).row_nnz_cv, {}, {}};
  for (const TimingResult& time : times_of(candidates, what.hot, timer, timing)) {
    result.times.push_back({time.name, time.median_us, time.noise});
  }
  result.chosen = family_chosen(what, matrix, host_device_info(target.isa()));
  return result;
}

}  // namespace spjit::bench
