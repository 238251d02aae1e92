#include "compiler/measure.hpp"

#include <algorithm>
#include <functional>

#include "compiler/spmm_kernel_impl.hpp"
#include "proxy/timing.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// B filled with small exact values: the time of an FMA does not depend on them, but denormals or
/// NaN would slow some CPUs down.
std::vector<float> make_b(std::int64_t floats) {
  std::vector<float> b(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
  return b;
}

TimedCandidate to_candidate(const TimingResult& result) {
  TimedCandidate timed;
  timed.median_us = result.median_us;
  timed.min_us = result.min_us;
  timed.noise = result.noise;
  timed.samples = result.samples;
  return timed;
}

}  // namespace

std::vector<TimedCandidate> time_artifacts(const std::vector<HostArtifact>& artifacts,
                                           const std::shared_ptr<ThreadPool>& pool) {
  std::vector<TimedCandidate> results(artifacts.size());
  std::vector<std::shared_ptr<SpmmKernel::Impl>> kernels;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < artifacts.size(); ++i) {
    try {
      kernels.push_back(SpmmKernel::Impl::load(artifacts[i].image(), {}, pool));
      places.push_back(i);
    } catch (const Error& error) {
      results[i].failure = error.what();
    }
  }
  if (kernels.empty()) return results;
  const HostProgram& program = kernels.front()->program;
  const std::int64_t n = program.n;
  const std::vector<float> b = make_b(program.cols * n);
  std::vector<float> c(static_cast<std::size_t>(program.rows * n));

  std::vector<TimingCandidate> candidates;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    candidates.push_back({std::to_string(places[i]), [&kernels, &b, &c, n, i] {
                            kernels[i]->run({b.data(), n, c.data(), n});
                          }});
  }
  TimingOptions options;
  options.budget_ms = 60.0 * static_cast<double>(kernels.size());
  const std::vector<TimingResult> times = measure_interleaved(candidates, options);
  for (std::size_t i = 0; i < times.size(); ++i) results[places[i]] = to_candidate(times[i]);
  return results;
}

}  // namespace spjit
