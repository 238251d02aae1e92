// Values of A in emitted text are numbers and nothing else.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "tests/support/cuda/emitter_cases.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaKernelSpec;
using spjit::SourceUnit;
using spjit::testing_support::cuda_plan;
using spjit::testing_support::cuda_spec;
using spjit::testing_support::random_matrix;

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

/// Characters at the beginning of `text` that are of `set`, at most `most`.
std::size_t run_of(std::string_view text, std::string_view set, std::size_t most = 32) {
  std::size_t length = 0;
  while (length < std::min(text.size(), most) && is_one_of(text[length], set)) ++length;
  return length;
}

constexpr std::string_view k_upper_hex = "0123456789ABCDEF";

/// Length of the CUDA literal that `text` begins with, 0 for none: "__int_as_float(0x7FC00001)" or
/// "-0x1.8p+0f". Nothing that could end a statement, a comment or a line.
std::size_t cuda_value(std::string_view text) {
  constexpr std::string_view k_bits = "__int_as_float(0x";
  if (text.starts_with(k_bits)) {
    const std::string_view rest = text.substr(k_bits.size());
    return run_of(rest, k_upper_hex) == 8 && rest[8] == ')' ? k_bits.size() + 9 : 0;
  }
  const std::size_t sign = text.starts_with("-") ? 1 : 0;
  if (!text.substr(sign).starts_with("0x")) return 0;
  std::size_t length = sign + 2;
  length += run_of(text.substr(length), "0123456789abcdef.");
  if (!text.substr(length).starts_with("p+") && !text.substr(length).starts_with("p-")) return 0;
  length += 2;
  length += run_of(text.substr(length), "0123456789");
  return text.substr(length).starts_with("f") ? length + 1 : 0;
}

/// Letters of a value in PTX at the beginning of the text: "0f3FC00000"; 0: there is none.
std::size_t ptx_value(std::string_view text) {
  return text.starts_with("0f") && run_of(text.substr(2), k_upper_hex) == 8 ? 10 : 0;
}

using ValueLength = std::size_t (*)(std::string_view);

std::string joined(const std::vector<SourceUnit>& units) {
  std::string text;
  for (const SourceUnit& unit : units) text += unit.text;
  return text;
}

/// The text with every value cut out; how many there were.
std::pair<std::string, std::int64_t> without_values(const std::string& text, ValueLength value) {
  std::string rest;
  std::int64_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = value(std::string_view(text).substr(at));
    rest += length > 0 ? 'V' : text[at];
    count += length > 0 ? 1 : 0;
    at += std::max<std::size_t>(length, 1);
  }
  return {rest, count};
}

/// Matrices with the same pattern and different values: any bits at all, and the unusual ones.
std::vector<CsrMatrix> valued() {
  const CsrMatrix plain = random_matrix(20, 24, 0.7, 3);
  CsrMatrix random = plain;
  std::uint32_t bits = 12345;
  for (float& value : random.values) {
    bits = bits * 1664525 + 1013904223;
    value = std::bit_cast<float>(bits);
  }
  CsrMatrix unusual = plain;
  const std::vector<float> values = spjit::testing_support::unusual_values();
  for (std::size_t i = 0; i < unusual.values.size(); ++i) {
    unusual.values[i] = values[i % values.size()];
  }
  return {plain, random, unusual};
}

TEST(SourceSafety, ValuesChangeNothingButTheirLiteralsInCuda) {
  const CudaKernelSpec spec = cuda_spec(7, 33);
  const std::vector<CsrMatrix> matrices = valued();
  const std::string expected =
      without_values(joined(emit_cuda(cuda_plan(matrices[0], 7), spec)), cuda_value).first;
  for (const CsrMatrix& matrix : matrices) {
    const auto [text, count] =
        without_values(joined(emit_cuda(cuda_plan(matrix, 7), spec)), cuda_value);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(count, matrix.nnz());
  }
}

TEST(SourceSafety, ValuesChangeNothingButTheirLiteralsInPtx) {
  const CudaKernelSpec spec = cuda_spec(7, 33);
  const std::vector<CsrMatrix> matrices = valued();
  const auto [expected, expected_count] =
      without_values(joined(emit_ptx(cuda_plan(matrices[0], 7), spec, 90)), ptx_value);
  EXPECT_GE(expected_count, matrices[0].nnz());
  for (const CsrMatrix& matrix : matrices) {
    const auto [text, count] =
        without_values(joined(emit_ptx(cuda_plan(matrix, 7), spec, 90)), ptx_value);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(count, expected_count);
  }
}

}  // namespace
