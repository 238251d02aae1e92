// What the comparison with the evaluator is worth: PTX with one small mistake does not pass it.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/files/text_edit.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Two tiles of two rows, every row with several entries.
CudaCase mutation_case() {
  return make_cuda_case(random_matrix(4, 9, 0.3), cuda_spec(2, 5), ReorderAlgorithm::none);
}

/// The first literal of an FMA, "0f3FC00000", with its last bit flipped.
std::string flip_last_bit(const std::string& ptx) {
  const std::string line = line_with(ptx, "fma.rn.f32");
  const std::size_t at = line.find("0f");
  const auto bits = static_cast<std::uint32_t>(std::stoul(line.substr(at + 2, 8), nullptr, 16));
  char flipped[9];
  std::snprintf(flipped, sizeof flipped, "%08X", bits ^ 1U);
  std::string mutated = line;
  mutated.replace(at + 2, 8, flipped);
  return replace_first(ptx, line, mutated);
}

class PtxMutation : public ::testing::Test {
 protected:
  PtxMutation() : item(mutation_case()), ptx(ptx_of(item)) {}

  void SetUp() override { ASSERT_TRUE(is_right(ptx, item)); }

  CudaCase item;
  std::string ptx;
};

TEST_F(PtxMutation, TheLastBitOfALiteralIsNoticed) {
  EXPECT_FALSE(is_right(flip_last_bit(ptx), item));
}

TEST_F(PtxMutation, ARowThatIsNotStoredIsNoticed) {
  EXPECT_FALSE(is_right(drop_line(ptx, "st.global.f32"), item));
}

TEST_F(PtxMutation, AMissingProductIsNoticed) {
  EXPECT_FALSE(is_right(drop_line(ptx, "fma.rn.f32"), item));
}

TEST_F(PtxMutation, ExchangedRowsAreNoticed) {
  const std::string first = line_with(ptx, "st.global.f32");
  const std::string second = line_with(ptx, "st.global.f32", ptx.find(first) + first.size());
  const auto source = [](const std::string& line) { return line.substr(line.rfind(',')); };
  std::string to_first = first.substr(0, first.rfind(',')) + source(second);
  std::string to_second = second.substr(0, second.rfind(',')) + source(first);

  const std::string mutated = replace_first(replace_first(ptx, first, to_first), second, to_second);

  EXPECT_NE(mutated, ptx);
  EXPECT_FALSE(is_right(mutated, item));
}

TEST_F(PtxMutation, OneColumnTooManyIsNoticed) {
  EXPECT_FALSE(is_right(replace_first(ptx, "setp.ge.u32", "setp.gt.u32"), item));
}

TEST_F(PtxMutation, OneColumnTooManyIsNoticedInTheirPaddingToo) {
  CudaKernelSpec spec = cuda_spec(2, 5);
  spec.ldb = spec.ldc = 8;
  const CudaCase padded = make_cuda_case(random_matrix(4, 9, 0.3), spec, ReorderAlgorithm::none);
  const std::string right = ptx_of(padded);
  ASSERT_TRUE(is_right(right, padded));

  EXPECT_FALSE(is_right(replace_first(right, "setp.ge.u32", "setp.gt.u32"), padded));
}

TEST_F(PtxMutation, AMissingBoundsCheckIsNoticed) {
  EXPECT_FALSE(is_right(drop_line(ptx, "@outside exit"), item));
}

TEST_F(PtxMutation, AnotherOrderOfSumsIsNoticed) {
  // Products of one row whose sum rounds: 1 + 2^-24 + 2^-24 depends on the order.
  CsrMatrix matrix{1, 3, {0, 3}, {0, 1, 2}, {1.0F, 0x1p-24F, 0x1p-24F}};
  CudaCase sums = make_cuda_case(matrix, cuda_spec(1, 1), ReorderAlgorithm::none);
  sums.b = {1.0F, 1.0F, 1.0F};
  const std::string right = ptx_of(sums);
  ASSERT_TRUE(is_right(right, sums));
  const std::string one = line_with(right, "0f3F800000,");

  std::string last = replace_first(right, one, "");
  const std::string store = line_with(last, "st.global.f32");
  last = replace_first(last, store, one + store);

  EXPECT_FALSE(is_right(last, sums));
}

TEST_F(PtxMutation, ARowOfBNextToTheRightOneIsNoticed) {
  const std::string load = line_with(ptx, "ld.global.nc.f32");
  const std::size_t plus = load.find('+') + 1;
  const std::int64_t offset = std::stoll(load.substr(plus));
  std::string mutated = load;
  mutated.replace(plus, load.find(']') - plus, std::to_string(offset + 4 * item.spec.ldb));

  EXPECT_FALSE(is_right(replace_first(ptx, load, mutated), item));
}

TEST_F(PtxMutation, TwoRoundingsInsteadOfOneAreNoticed) {
  std::string mutated = ptx;
  for (std::size_t at = mutated.find("fma.rn.f32"); at != std::string::npos;
       at = mutated.find("fma.rn.f32", at)) {
    const std::string line = line_with(mutated, "fma.rn.f32", at);
    // "fma.rn.f32 c,b,value,c;" as a product and a sum.
    const std::string operands = line.substr(line.find(' ') + 1);
    const std::string c = operands.substr(0, operands.find(','));
    const std::string product =
        operands.substr(operands.find(',') + 1, operands.rfind(',') - operands.find(',') - 1);
    const std::string split =
        "mul.rn.f32 product," + product + ";\nadd.rn.f32 " + c + ",product," + c + ";\n";
    mutated.replace(mutated.rfind('\n', at) + 1, line.size(), split);
  }
  std::string declared;
  for (std::size_t at = 0; at < mutated.size();) {
    const std::size_t end = mutated.find('\n', at) + 1;
    declared += mutated.substr(at, end - at);
    if (mutated.compare(at, 11, ".reg .f32 c") == 0) declared += ".reg .f32 product;\n";
    at = end;
  }

  EXPECT_FALSE(is_right(declared, item));
}

TEST_F(PtxMutation, ATileThatIsComputedTwiceInsteadOfAnotherIsNoticed) {
  EXPECT_FALSE(is_right(replace_first(ptx, "call spjit_tile_1,", "call spjit_tile_0,"), item));
}

}  // namespace
