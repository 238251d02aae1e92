// A family with a type and a promise of its own: one class, and its place in a backend's list.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernel_check.hpp"
#include "compiler/pipeline.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/host/compact/compact_family.hpp"
#include "kernels/host/csr/csr_family.hpp"
#include "kernels/host/host_backend.hpp"
#include "kernels/host/object/host_family.hpp"
#include "kernels/host/reference/reference_family.hpp"
#include "plan/elements.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/request_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

/// B of bf16, from the last column to the first: other bits than in order, within a bound.
class DescendingExecutable final : public Executable {
 public:
  DescendingExecutable(HostObject object, CsrImage read)
      : object_(std::move(object)), read_(std::move(read)) {}

  [[nodiscard]] const HostImage* image() const noexcept override { return &object_.image; }

  void run(const Arguments& arguments) const override {
    const CsrView a = read_.view();
    for (std::int64_t row = 0; row < a.rows; ++row) {
      for (std::int64_t j = 0; j < arguments.n; ++j) {
        float sum = 0;
        for (std::int64_t i = a.row_ptrs[index(row) + 1]; i-- > a.row_ptrs[index(row)];) {
          const std::int64_t at = a.col_idxs[index(i)] * arguments.b.ld + j;
          sum += a.values[index(i)] *
                 static_cast<float>(load_element(DataType::bf16, arguments.b.data, at));
        }
        arguments.c.as<float>()[row * arguments.c.ld + j] = sum;
      }
    }
  }

 private:
  HostObject object_;
  CsrImage read_;
};

class DescendingFamily final : public HostFamily {
 public:
  explicit DescendingFamily(std::string name = "descending") : name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] ProblemFeatures features() const noexcept override {
    return {ProblemFeature::spmm, ProblemFeature::numerics};
  }
  [[nodiscard]] Refusal numerics_refusal(const Numerics& numerics) const override {
    if (numerics.accumulate.promise != Promise::bounded || numerics.accumulate.eps < 1e-5) {
      return Refusal("it does not keep the promise " + to_string(numerics.accumulate));
    }
    Numerics others = numerics;
    others.accumulate = {};
    if (numerics.b == DataType::bf16) others.b = DataType::f32;
    return beyond_default(others);
  }
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override {
    return build_csr(request, *this);
  }
  [[nodiscard]] LoadedKernel open(const HostObject& object,
                                  const Cancellation& cancel) const override {
    CsrImage read = read_csr_image(object.image, cancel);
    KernelInfo info = info_of(read.header, object);
    return {std::move(info), std::make_shared<const DescendingExecutable>(object, std::move(read))};
  }

 private:
  std::string name_;
};

/// The whole of what a new promise and a new type take.
class FamilyOfNumerics : public testing::Test {
 protected:
  DescendingFamily first_;
  DescendingFamily second_{"second"};
  ReferenceFamily reference_;
  HostBackend backend_{{&first_, &second_, &reference_}};
};

constexpr Numerics k_rough{DataType::f32, DataType::bf16, DataType::f32, Accumulate::bounded(1e-3)};

Problem problem_with(const Numerics& numerics) {
  Problem problem = problem_of(random_matrix(20, 30, 0.5), 8);
  problem.numerics = numerics;
  return problem;
}

CompiledKernel compile_with(const HostBackend& backend, const Numerics& numerics,
                            const RaceKernels& race = {}) {
  CompileOptions options = options_of();
  if (race) options.policy.search = SearchMode::ranked;
  OwnRequest own(problem_with(numerics), options, made_up_host());
  return compile_problem(own.request, backend.families(), race);
}

std::vector<std::string> verdicts_of(const CompiledKernel& compiled) {
  std::vector<std::string> verdicts;
  for (const auto& verdict : compiled.record.at("verdicts")) {
    verdicts.push_back(verdict.at("family").get<std::string>() + ": " +
                       verdict.at("reason").get<std::string>());
  }
  return verdicts;
}

TEST_F(FamilyOfNumerics, RefusesAQuantizedBByDefault) {
  EXPECT_EQ(beyond_default({.quantization = Quantization::token}).reason(),
            "it does not quantise B (quantize:token)");
}

TEST_F(FamilyOfNumerics, TakesItsTypeUnderItsPromise) {
  EXPECT_EQ(compile_with(backend_, k_rough).family, &first_);
}

TEST_F(FamilyOfNumerics, LeavesOtherPromisesAndTypesToOthersAndSaysWhich) {
  Numerics in_order = k_rough;
  in_order.accumulate = {};
  Numerics half = k_rough;
  half.b = DataType::f16;
  Numerics fine = k_rough;
  fine.accumulate = Accumulate::bounded(1e-9);

  EXPECT_THAT(
      verdicts_of(compile_with(backend_, in_order)),
      ElementsAre("descending: it does not keep the promise ordered",
                  "second: it does not keep the promise ordered", HasSubstr("reference: ")));
  EXPECT_THAT(verdicts_of(compile_with(backend_, half)),
              testing::Contains("descending: it does not take B of f16"));
  EXPECT_EQ(compile_with(backend_, fine).family, &reference_);
  EXPECT_EQ(compile_with(backend_, {}).family, &reference_);
}

TEST_F(FamilyOfNumerics, RacesOnlyAgainstThoseThatKeepThePromise) {
  const CsrFamily csr;
  const CompactFamily compact;
  const HostBackend backend({&first_, &csr, &second_, &compact, &reference_});
  std::vector<std::string> raced;
  const RaceKernels race = [&](std::span<const RaceEntry> entries) {
    for (const RaceEntry& entry : entries) raced.push_back(entry.name);
    return std::vector<TuningResult>();
  };

  static_cast<void>(compile_with(backend, k_rough, race));
  EXPECT_THAT(raced, ElementsAre("descending", "second"));
  raced.clear();
  static_cast<void>(compile_with(backend, {}, race));
  EXPECT_THAT(raced, ElementsAre("csr", "compact"));
}

TEST_F(FamilyOfNumerics, IsCheckedByItsPromise) {
  const Problem problem = checked_problem(problem_with(k_rough));
  const CompiledKernel compiled = compile_with(backend_, k_rough);
  const LoadedKernel loaded = compiled.code->load(compiled.record, HostDevice{}, {});
  const auto check = [&](const Numerics& numerics, float off) {
    const CheckRun only{.n = 8, .b = {8}, .c = {8}};
    return check_kernel({.matrix = *problem.a,
                         .runs = {only},
                         .run =
                             [&](const Arguments& arguments) {
                               loaded.executable->run(arguments);
                               arguments.c.as<float>()[3] += off;
                             },
                         .numerics = numerics})
        .problem;
  };

  EXPECT_EQ(loaded.info.numerics, k_rough);
  EXPECT_EQ(check(k_rough, 0), "");
  EXPECT_THAT(check(k_rough, 0.5F), HasSubstr("wrong result: C[0][3]"));
}

}  // namespace
