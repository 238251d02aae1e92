#pragma once

/// @file
/// Requests to families of kernels, with all that they refer to.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_family.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "plan/problem.hpp"
#include "proxy/search.hpp"
#include "tests/support/host/host_tuning_testing.hpp"

namespace spjit::testing_support {

/// A host that does not depend on the machine: AVX-512, 32 registers.
[[nodiscard]] inline HostDeviceInfo made_up_host() {
  HostDeviceInfo limits;
  limits.isa = HostIsa::avx512;
  limits.lanes = 16;
  limits.registers = 32;
  return limits;
}

/// Owns what a request refers to. Members may be changed until it is used.
class OwnRequest {
 public:
  OwnRequest(Problem of, CompileOptions by, DeviceInfo on)
      : problem(checked_problem(std::move(of))),
        options(std::move(by)),
        device(std::move(on)),
        request{what, context} {
    request.search = [this](TunableSpace& space, std::chrono::steady_clock::time_point begin) {
      return search(space, settings_of(options.policy, space, begin), context);
    };
  }
  OwnRequest(const OwnRequest&) = delete;
  OwnRequest& operator=(const OwnRequest&) = delete;
  ~OwnRequest() = default;

  const Problem problem;
  CompileOptions options;
  const DeviceInfo device;
  const CompileContext context = {};
  const FamilyRequest what{problem, options, device, context.cancel};
  BuildRequest request;
};

/// A space whose candidates are built and nobody runs: their times are made up.
class MadeUpTimes : public TunableSpace {
 public:
  explicit MadeUpTimes(TunableSpace& space) : space_(space) {}

  [[nodiscard]] std::string ranked_by() const override { return space_.ranked_by(); }
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override {
    return space_.candidates();
  }
  [[nodiscard]] TuningTraits traits() const override { return space_.traits(); }
  [[nodiscard]] bool share_build(std::size_t left, std::size_t right,
                                 Fidelity fidelity) const override {
    return space_.share_build(left, right, fidelity);
  }
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity fidelity,
                                                          const Cancellation& cancel) override {
    return space_.build(candidates, fidelity, cancel);
  }
  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions&) override {
    std::vector<TuningResult> results;
    for (const TuningJob& job : jobs) results.push_back(result_of(job));
    return results;
  }

 private:
  [[nodiscard]] virtual TuningResult result_of(const TuningJob& job) = 0;

  TunableSpace& space_;
};

/// The less code and data, the faster.
class TimedBySize final : public MadeUpTimes {
 public:
  using MadeUpTimes::MadeUpTimes;

 private:
  [[nodiscard]] TuningResult result_of(const TuningJob& job) override {
    return finished_in(static_cast<double>(job.build->bytes));
  }
};

}  // namespace spjit::testing_support
