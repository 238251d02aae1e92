// Values of A in emitted text are numbers and nothing else.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "compiler/cuda_emitter.hpp"
#include "compiler/ptx_emitter.hpp"
#include "tests/support/emitter_cases.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaKernelSpec;
using spjit::SourceUnit;
using spjit::testing_support::cuda_plan;
using spjit::testing_support::cuda_spec;
using spjit::testing_support::random_matrix;

// What a value may look like: nothing that could end a statement, a comment or a line.
const char* const k_cuda_value =
    R"(__int_as_float\(0x[0-9A-F]{8}\)|-?0x[01](\.[0-9a-f]+)?p[+-]\d+f)";
const char* const k_ptx_value = "0f[0-9A-F]{8}";

std::string joined(const std::vector<SourceUnit>& units) {
  std::string text;
  for (const SourceUnit& unit : units) text += unit.text;
  return text;
}

/// The text with every value cut out; how many there were.
std::pair<std::string, std::ptrdiff_t> without_values(const std::string& text,
                                                      const std::string& value) {
  const std::regex pattern(value);
  const std::ptrdiff_t count = std::distance(
      std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator());
  return {std::regex_replace(text, pattern, "V"), count};
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
      without_values(joined(emit_cuda(cuda_plan(matrices[0], 7), spec)), k_cuda_value).first;
  for (const CsrMatrix& matrix : matrices) {
    const auto [text, count] =
        without_values(joined(emit_cuda(cuda_plan(matrix, 7), spec)), k_cuda_value);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(count, matrix.nnz());
  }
}

TEST(SourceSafety, ValuesChangeNothingButTheirLiteralsInPtx) {
  const CudaKernelSpec spec = cuda_spec(7, 33);
  const std::vector<CsrMatrix> matrices = valued();
  const auto [expected, expected_count] =
      without_values(joined(emit_ptx(cuda_plan(matrices[0], 7), spec, 90)), k_ptx_value);
  EXPECT_GE(expected_count, matrices[0].nnz());
  for (const CsrMatrix& matrix : matrices) {
    const auto [text, count] =
        without_values(joined(emit_ptx(cuda_plan(matrix, 7), spec, 90)), k_ptx_value);
    EXPECT_EQ(text, expected);
    EXPECT_EQ(count, expected_count);
  }
}

}  // namespace
