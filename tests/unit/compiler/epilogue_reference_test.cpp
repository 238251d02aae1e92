#include "compiler/epilogue_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using namespace spjit;

using Floats = std::numeric_limits<float>;

Reference sum_of(double value) { return {.value = value, .bound = 0x1p-20}; }

Reference activated(double value, Activation activation) {
  return finished(sum_of(value),
                  {.activation = activation, .low = -1, .high = 6, .alpha = -0.25F, .beta = 0.5F},
                  {});
}

TEST(EpilogueReference, WithoutOneIsTheSum) {
  const Reference same = finished(sum_of(3), {}, {.scale = 2, .bias = 1, .residual = 1});

  EXPECT_EQ(same.value, 3);
  EXPECT_EQ(same.bound, 0x1p-20);
}

TEST(EpilogueReference, ScalesThenAddsBiasAndResidualThenActivates) {
  const Epilogue all{.scale = true, .bias = true, .residual = true, .activation = Activation::relu};

  EXPECT_EQ(finished(sum_of(3), all, {.scale = 2, .bias = 10, .residual = 100}).value, 116);
  EXPECT_EQ(finished(sum_of(-60), all, {.scale = 2, .bias = 10, .residual = 100}).value, 0);
}

TEST(EpilogueReference, GrowsTheBoundByWhatEachOperationMayLose) {
  const Reference scaled = finished(sum_of(3), {.scale = true}, {.scale = -8});
  const Reference added = finished(sum_of(3), {.bias = true}, {.bias = 1000});

  EXPECT_GT(scaled.bound, 8 * 0x1p-20);
  EXPECT_LT(scaled.bound, 8 * 0x1p-20 + 25 * 0x1p-24);
  EXPECT_GT(added.bound, 0x1p-20 + 1003 * 0x1p-24);
  EXPECT_LT(added.bound, 0x1p-20 + 1004 * 0x1p-24);
}

TEST(EpilogueReference, HasActivationsAsTheirFormulasSay) {
  EXPECT_NEAR(activated(1, Activation::gelu_erf).value, 0.5 * (1 + std::erf(std::sqrt(0.5))), 1e-7);
  EXPECT_NEAR(activated(1, Activation::gelu_tanh).value,
              0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * 1.044715)), 1e-7);
  EXPECT_NEAR(activated(-2, Activation::silu).value, -2 / (1 + std::exp(2)), 1e-7);
  EXPECT_EQ(activated(7, Activation::clamp).value, 6);
  EXPECT_EQ(activated(-7, Activation::clamp).value, -1);
  EXPECT_EQ(activated(7, Activation::hard_swish).value, 7);
  EXPECT_EQ(activated(-7, Activation::hard_swish).value, 0);
  EXPECT_NEAR(activated(-1, Activation::hard_swish).value, -1.0 / 3, 1e-15);
  EXPECT_EQ(activated(-2, Activation::leaky_relu).value, 0.5);
  EXPECT_EQ(activated(2, Activation::leaky_relu).value, 2);
  EXPECT_EQ(activated(1, Activation::hard_sigmoid).value, 0.25);
  EXPECT_EQ(activated(3, Activation::hard_sigmoid).value, 0);
  EXPECT_EQ(activated(-3, Activation::hard_sigmoid).value, 1);
  EXPECT_NEAR(activated(-1, Activation::sigmoid).value, 1 / (1 + std::exp(1)), 1e-15);
  EXPECT_EQ(activated(-1, Activation::tanh).value, std::tanh(-1));
}

TEST(EpilogueReference, BoundsActivationsByTheirSlopeAndTheirOwnError) {
  struct Case {
    Activation activation;
    double slope;
    double roundings;  ///< of results up to 1
  };
  for (const auto& [activation, slope, roundings] :
       {Case{Activation::leaky_relu, 1, 4}, Case{Activation::hard_sigmoid, 0.25, 5},
        Case{Activation::sigmoid, 0.25, 11}, Case{Activation::tanh, 1, 7}}) {
    const Reference exact = activated(1, activation);

    EXPECT_GT(exact.bound, slope * 0x1p-20) << to_string(activation);
    EXPECT_LT(exact.bound, slope * 0x1p-20 + (roundings + 1) * 0x1p-24) << to_string(activation);
  }
}

TEST(EpilogueReference, BoundsActivationsTightlyEnoughToTellThemApart) {
  const Reference erf = activated(1, Activation::gelu_erf);
  const Reference tanh = activated(1, Activation::gelu_tanh);

  EXPECT_GT(judge(static_cast<float>(tanh.value), erf), 1);
  EXPECT_LE(judge(static_cast<float>(erf.value + 8 * 0x1p-23), erf), 1);
}

TEST(EpilogueReference, KeepsNanAndWantsWhatAnInfinityBecomes) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(judge(Floats::quiet_NaN(), activated(std::nan(""), Activation::relu)), 0);
  EXPECT_GT(judge(0, activated(std::nan(""), Activation::relu)), 1);
  EXPECT_EQ(judge(Floats::infinity(), activated(infinity, Activation::gelu_erf)), 0);
  EXPECT_GT(judge(1, activated(infinity, Activation::gelu_erf)), 1);
  EXPECT_EQ(judge(0, activated(-infinity, Activation::relu)), 0);
  EXPECT_EQ(judge(Floats::quiet_NaN(), activated(-infinity, Activation::relu)),
            0);  // of infinities that met
  EXPECT_GT(judge(1, activated(-infinity, Activation::relu)), 1);
}

TEST(EpilogueReference, SaysWhereAnOperationMayOverflow) {
  const Reference sum{.value = 3e38, .bound = 1e30};

  EXPECT_TRUE(finished(sum, {.bias = true}, {.bias = 3e38F}).may_overflow);
  EXPECT_FALSE(finished(sum, {.bias = true}, {.bias = 0}).may_overflow);
  // What such sums become may be anything.
  const Epilogue epilogue{.bias = true, .residual = true, .activation = Activation::relu};
  const Reference back = finished(sum, epilogue, {.bias = 3e38F, .residual = -3e38F});
  for (const float value : {0.0F, 3e38F, Floats::infinity()}) EXPECT_EQ(judge(value, back), 0);
}

}  // namespace
