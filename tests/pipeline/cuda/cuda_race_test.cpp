// Families of a GPU race on the emulated driver: kernels made of PTX are loaded, launched on the
// problem's operands and timed, and one is taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline.hpp"
#include "kernels/built_kernel.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::StartsWith;

/// A family that reads A, whose artifact has PTX where its own would have a cubin.
class PtxFamily final : public KernelFamily {
 public:
  explicit PtxFamily(std::string name, bool is_loadable = true)
      : name_(std::move(name)), is_loadable_(is_loadable), own_(reading_family(name_)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::string version() const override { return own_.version(); }
  [[nodiscard]] ProblemFeatures features() const noexcept override { return own_.features(); }

  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override {
    Artifact artifact = reading_artifact(request.what.problem, name_);
    BuiltKernel built;
    built.record = nlohmann::json::parse(artifact.record);
    built.record.erase("search");
    built.reason = "PTX";
    built.code = std::make_shared<const BuiltFiles>(*this, std::move(artifact.files));
    return built;
  }

  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device& device, const Cancellation& cancel) const override {
    if (!is_loadable_) throw DeviceError("the GPU has no memory left", 2);
    return own_.load(artifact, record, device, cancel);
  }

 private:
  std::string name_;
  bool is_loadable_;
  const ReadingCudaFamily& own_;
};

class CudaRace : public testing::Test {
 protected:
  [[nodiscard]] CompiledKernel compile(std::span<const KernelFamily* const> families) const {
    const Problem problem = checked_problem(problem_);
    CompileOptions options = gpu_options("sm_90:gpu0");
    options.policy.search = SearchMode::ranked;
    const DeviceInfo device = device_info_of(options.target);
    const CompileContext context;
    const FamilyRequest what{problem, options, device, context.cancel};
    return compile_problem({what, context}, families, race_within_budget(what, context, nullptr));
  }

  [[nodiscard]] std::vector<TuningResult> race() const {
    const Problem problem = checked_problem(problem_);
    std::vector<RaceEntry> entries;
    for (const char* name : {"csr", "dense"}) {
      const Artifact artifact = reading_artifact(problem, name);
      entries.push_back(
          {name, find_family(name, "cuda")
                     .load(artifact, nlohmann::json::parse(artifact.record), GpuDevice{0}, {})
                     .executable});
    }
    return backend_named("cuda").race(entries, problem, {.budget_ms = 5000, .device = GpuDevice{0}},
                                      {});
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  PtxFamily csr_{"csr"};
  PtxFamily dense_{"dense"};
  Problem problem_ = problem_of(layer_case(random_matrix(33, 20, 0.5), cuda_spec(4, 18)));
};

TEST_F(CudaRace, TimesEveryKernelOnTheProblemsOperands) {
  problem_.epilogue = {.scale = true, .bias = true, .residual = true};
  problem_.b.layout = problem_.c.layout = Layout::tokens_major;
  problem_.b.leading_dimension = problem_.c.leading_dimension = 0;
  problem_.runtime_values = true;

  const std::vector<TuningResult> results = race();

  ASSERT_EQ(results.size(), 2U);
  for (const TuningResult& result : results) {
    EXPECT_EQ(result.failure, "");
    EXPECT_GT(result.timing.samples, 0);
  }
}

TEST_F(CudaRace, IsNotHeldWhereOperandsAreMoreThanAGpuHas) {
  problem_.b.leading_dimension = std::int64_t{1} << 31;  // of 20 rows: 172 GB

  EXPECT_TRUE(race().empty());
}

TEST_F(CudaRace, TakesTheFastestAndSaysSo) {
  const std::vector<const KernelFamily*> families = {&dense_, &csr_};

  const CompiledKernel compiled = compile(families);

  EXPECT_THAT(compiled.record.at("search").at("reason").get<std::string>(),
              StartsWith("ranked: fastest of 2 families: "));
  EXPECT_EQ(compiled.record.at("search").at("timed"), true);
  EXPECT_EQ(compiled.record.at("verdicts").size(), 2U);
}

TEST_F(CudaRace, LeavesOutAKernelThatAGpuCannotLoad) {
  const PtxFamily too_large("dense", false);
  const std::vector<const KernelFamily*> families = {&too_large, &csr_};

  const CompiledKernel compiled = compile(families);

  EXPECT_EQ(compiled.record.at("family"), "csr");
  EXPECT_EQ(compiled.record.at("verdicts").at(0).at("family"), "dense");
  EXPECT_THAT(compiled.record.at("verdicts").at(0).at("reason").get<std::string>(),
              HasSubstr("no memory left"));
}

}  // namespace
