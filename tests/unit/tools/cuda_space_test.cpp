#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "kernels/unrolled_cuda/cuda_prior.hpp"
#include "tests/support/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/support/text_edit.hpp"
#include "tools/cuda_space_svg.hpp"
#include "tools/cuda_space_table.hpp"

namespace {

using spjit::CudaCandidate;
using spjit::CudaTileSpace;
using spjit::cli::CudaSpaceView;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::occurrences;
using spjit::testing_support::random_matrix;
using testing::HasSubstr;
using testing::Not;

class CudaSpacePicture : public testing::Test {
 protected:
  CudaTileSpace space_ = cuda_space(random_matrix(512, 512, 0.9), cuda_problem(512));
  std::vector<CudaCandidate> ranked_ = spjit::rank_by_prior(space_.survivors(), cuda_limits());
  CudaSpaceView view_{space_, ranked_, ranked_.front().tile};
};

TEST_F(CudaSpacePicture, MarksTheChosenTileAndCountsRanksFromOne) {
  std::size_t chosen = 0;
  for (const spjit::cli::CudaSpaceCell& cell : make_grid(view_).cells) {
    EXPECT_EQ(cell.rank > 0, !cell.candidate->dropped);
    if (!cell.chosen) continue;
    ++chosen;
    EXPECT_EQ(label_of(cell), "*1");
  }
  EXPECT_EQ(chosen, 1U);
}

TEST_F(CudaSpacePicture, ListsEveryCandidateWithItsReason) {
  const std::string text = cuda_space_table(view_, {});

  for (const CudaCandidate& candidate : space_.candidates) {
    EXPECT_EQ(occurrences(text, "  " + to_string(candidate.tile) + " "), 1U);
    if (!candidate.dropped) continue;
    EXPECT_THAT(text, HasSubstr(candidate.dropped->numbers));
  }
  EXPECT_THAT(text, Not(HasSubstr("relaxed")));
}

TEST_F(CudaSpacePicture, SaysWhatWasRelaxed) {
  space_.relaxed = {spjit::CudaRule::balance, spjit::CudaRule::occupancy};

  EXPECT_THAT(cuda_space_table(view_, {}), HasSubstr("was left: balance, occupancy\n"));
}

TEST_F(CudaSpacePicture, DrawsACellForEveryCandidate) {
  const std::string svg = cuda_space_svg(view_, "title");

  EXPECT_EQ(occurrences(svg, "<g class=\"cell\">"), space_.candidates.size());
  EXPECT_EQ(occurrences(svg, "stroke-width=\"3\""), 1U);
}

TEST_F(CudaSpacePicture, EscapesItsText) {
  const std::string svg = cuda_space_svg(view_, "<a & \"b\" 'c'\x01>");

  EXPECT_EQ(occurrences(svg, "&lt;a &amp; &quot;b&quot; &apos;c&apos;?&gt;"), 2U);
  EXPECT_THAT(svg, Not(HasSubstr("<a ")));
}

TEST_F(CudaSpacePicture, IsDrawnForAnEmptySpaceToo) {
  const CudaTileSpace empty;

  EXPECT_THAT(spjit::cli::cuda_space_svg({empty, {}, {}}, "nothing"), HasSubstr("</svg>"));
}

}  // namespace
