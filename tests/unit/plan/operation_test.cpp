// What the rules of each operation say of its sizes.

#include "plan/operation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "spjit/error.hpp"

namespace {

using spjit::Convolution;
using spjit::Operation;
using spjit::OperationRules;
using spjit::RowRange;
using spjit::RowRanges;
using spjit::rules_of;
using spjit::sizes_of;
using testing::ElementsAre;

/// 3x3 taps, 4 x 6 pixels of the output.
std::optional<Convolution> some_convolution() {
  return Convolution{.channels = 5,
                     .height = 9,
                     .width = 8,
                     .kernel_height = 3,
                     .kernel_width = 3,
                     .stride_height = 2};
}

TEST(OperationRules, AreListedByTheNumberOfTheirOperation) {
  spjit::ProblemFeatures seen;
  for (const OperationRules* rules : spjit::all_operations()) {
    EXPECT_EQ(&rules_of(rules->operation()), rules);
    EXPECT_EQ(to_string(rules->operation()), rules->name());
    EXPECT_FALSE(seen.has(rules->feature())) << rules->name();
    seen.add(rules->feature());
  }
  EXPECT_EQ(rules_of(Operation::spmm).name(), "spmm");
  EXPECT_EQ(rules_of(Operation::conv2d).name(), "conv2d");
}

TEST(OperationRules, OfAnUnknownOperationNameThoseThereAre) {
  try {
    static_cast<void>(rules_of(static_cast<Operation>(7)));
    FAIL() << "nothing was thrown";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()), "the operation is 7; expected 0 (spmm) or 1 (conv2d)");
  }
  EXPECT_EQ(to_string(static_cast<Operation>(7)), "?");
}

TEST(OperationRules, AreFoundByWhatAKernelHas) {
  EXPECT_EQ(rules_of(std::optional<Convolution>()).operation(), Operation::spmm);
  EXPECT_EQ(rules_of(some_convolution()).operation(), Operation::conv2d);
}

TEST(SpmmRules, StoreAllOfB) {
  const OperationRules& rules = rules_of(Operation::spmm);
  RowRanges rows;
  rows.add(3, 7);

  const spjit::StoredSize b = rules.stored_b(sizes_of(40, 7, std::nullopt));

  EXPECT_EQ(b.rows, 40);
  EXPECT_EQ(b.columns, 7);
  EXPECT_THAT(rules.stored_rows(sizes_of(40, 7, std::nullopt), rows).ranges(),
              ElementsAre(RowRange{3, 7}));
  EXPECT_TRUE(rules.has_rows_of_b(spjit::Layout::row_major));
  EXPECT_FALSE(rules.has_rows_of_b(spjit::Layout::tokens_major));
  EXPECT_EQ(rules.details(sizes_of(40, 7, std::nullopt)), "");
}

TEST(SpmmRules, AnotherRunHasAnotherN) {
  const OperationRules& rules = rules_of(Operation::spmm);

  EXPECT_EQ(rules.other_run(sizes_of(40, 7, std::nullopt)).n, 19);
  EXPECT_EQ(rules.other_run(sizes_of(40, 19, std::nullopt)).n, 21);
}

TEST(Conv2dRules, StoreTheImageOfTheRun) {
  const std::optional<Convolution> of = some_convolution();
  const OperationRules& rules = rules_of(of);
  spjit::OperationSizes sizes = sizes_of(45, 24, of);

  EXPECT_EQ(rules.stored_b(sizes).rows, 5);
  EXPECT_EQ(rules.stored_b(sizes).columns, 72);
  sizes.image = {3, 4};
  EXPECT_EQ(rules.stored_b(sizes).columns, 12);
  EXPECT_FALSE(rules.has_rows_of_b(spjit::Layout::row_major));
  EXPECT_EQ(rules.details(sizes), to_string(*of));
}

TEST(Conv2dRules, HaveDetailsOfAProblemWithoutA) {
  spjit::Problem problem;
  problem.operation = Operation::conv2d;
  problem.convolution = some_convolution();

  EXPECT_EQ(sizes_of(problem).cols, 0);
  EXPECT_EQ(rules_of(problem).details(sizes_of(problem)), to_string(*problem.convolution));
}

TEST(Conv2dRules, StoredRowsAreTheChannelsOfRowsOfB) {
  const std::optional<Convolution> of = some_convolution();
  RowRanges rows;
  rows.add(0, 1);
  rows.add(8, 10);   // the end of channel 0 and the beginning of 1
  rows.add(44, 45);  // channel 4

  const RowRanges channels = rules_of(of).stored_rows(sizes_of(45, 24, of), rows);

  EXPECT_THAT(channels.ranges(), ElementsAre(RowRange{0, 2}, RowRange{4, 5}));
}

TEST(Conv2dRules, StoredRowsAreAllChannelsThatARangeOfRowsHas) {
  const std::optional<Convolution> of = some_convolution();
  RowRanges rows;
  rows.add(8, 28);   // the end of channel 0, 1 and 2, and the beginning of 3
  rows.add(30, 31);  // of channel 3, too

  const RowRanges channels = rules_of(of).stored_rows(sizes_of(45, 24, of), rows);

  EXPECT_THAT(channels.ranges(), ElementsAre(RowRange{0, 4}));
}

TEST(Conv2dRules, AnotherRunHasAnotherImage) {
  const std::optional<Convolution> of = some_convolution();

  const spjit::OtherRun other = rules_of(of).other_run(sizes_of(45, 24, of));

  ASSERT_TRUE(other.convolution);
  EXPECT_EQ(other.convolution->height, 12);
  EXPECT_EQ(other.convolution->width, 10);
  EXPECT_EQ(other.n, other.convolution->output_height() * other.convolution->output_width());
}

}  // namespace
