// That the check of other types and promises passes what is right and fails for each wrong kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/check_pattern.hpp"
#include "compiler/epilogue_reference.hpp"
#include "compiler/kernel_check.hpp"
#include "compiler/stored_kernel_check.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "plan/elements.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/quantized_elements.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using enum DataType;

constexpr std::int64_t k_typed_n = 9;

constexpr Numerics k_bf16{bf16, bf16, bf16, {}};
constexpr Numerics k_bytes{i8, u8, i32, Accumulate::integer()};

/// The sum of one element, which a fault may change.
struct TypedSum {
  double value = 0;      ///< as the promise has it
  double magnitude = 0;  ///< sum of |a| |b|
};

/// What a wrong kernel does: to a sum, or to a product before it is added, or to an element that is
/// stored.
struct TypedFault {
  std::function<double(const TypedSum&)> sum = [](const TypedSum& sum) { return sum.value; };
  std::function<float(float)> partial = [](float partial) { return partial; };
  std::function<void(DataType, void*, std::int64_t, double)> store = store_element;
};

TypedSum typed_sum(const CsrMatrix& a, const Numerics& numerics, const Arguments& operands,
                   std::int64_t row, std::int64_t column, const TypedFault& fault) {
  TypedSum sum;
  float in_order = 0;
  for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
    const double b =
        load_element(numerics.b, operands.b.data, a.col_idxs[index(i)] * operands.b.ld + column);
    in_order = fault.partial(std::fma(a.values[index(i)], static_cast<float>(b), in_order));
    const double product = static_cast<double>(a.values[index(i)]) * b;
    sum.value += product;
    sum.magnitude += std::abs(product);
  }
  if (numerics.accumulate.promise == Promise::ordered) sum.value = static_cast<double>(in_order);
  return sum;
}

/// Of a C of bytes the integer that is still to saturate, else the number.
double in_units_of_c(double value, DataType type, const Arguments& operands) {
  if (type != i8 && type != u8) return value;
  return whole_of(static_cast<double>(static_cast<float>(value) / *operands.c_scale)) +
         operands.c_zero_point;
}

CheckResult check_typed(const CsrMatrix& matrix, const Numerics& numerics,
                        const TypedFault& fault = {},
                        const std::function<void(const Arguments&)>& after = {}) {
  const auto run_of = [](std::int64_t gap) {
    return CheckRun{.n = k_typed_n, .b = {k_typed_n + gap}, .c = {k_typed_n + gap}};
  };
  const auto run = [&](const Arguments& operands) {
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t j = 0; j < operands.n; ++j) {
        const TypedSum sum = typed_sum(matrix, numerics, operands, row, j, fault);
        fault.store(numerics.c, operands.c.data, row * operands.c.ld + j,
                    in_units_of_c(fault.sum(sum), numerics.c, operands));
      }
    }
    if (after) after(operands);
  };
  return check_kernel(
      {.matrix = matrix, .runs = {run_of(0), run_of(3)}, .run = run, .numerics = numerics});
}

/// Of values that the type has.
CsrMatrix typed_matrix(DataType type) {
  CsrMatrix matrix = random_matrix(30, 40, 0.6);
  for (float& value : matrix.values) {
    value = static_cast<float>(in_type(type, static_cast<double>(value)));
  }
  return matrix;
}

TEST(TypedCheck, PassesRightKernelsOfEveryType) {
  for (const DataType c : {f32, bf16, f16, i32, i8, u8}) {
    for (const DataType a : {f32, bf16, f16, i8, i4}) {
      for (const DataType b : {f32, bf16, f16}) {
        const Numerics numerics{a, b, c, {}};
        const CheckResult result = check_typed(typed_matrix(a), numerics);
        EXPECT_EQ(result.problem, "") << to_string(numerics);
        EXPECT_LE(result.max_error_over_bound, 1) << to_string(numerics);
      }
    }
    for (const DataType b : {i8, u8}) {
      EXPECT_EQ(check_typed(typed_matrix(i8), {i8, b, c, Accumulate::integer()}).problem, "");
    }
    for (const DataType b : {f32, bf16, i32, u8}) {
      const Numerics numerics{i32, b, c, Accumulate::bounded(1e-6)};
      EXPECT_EQ(check_typed(typed_matrix(i32), numerics).problem, "") << to_string(numerics);
    }
  }
}

TEST(TypedCheck, SeesAnElementThatIsCutOffInsteadOfRounded) {
  const TypedFault cut{.store = [](DataType type, void* c, std::int64_t at, double value) {
    const double unit = std::ldexp(1.0, std::ilogb(value) - (type == bf16 ? 7 : 10));
    store_element(type, c, at, std::trunc(value / unit) * unit);
  }};
  for (const DataType c : {bf16, f16}) {
    const Numerics numerics{f32, f32, c, {}};

    EXPECT_THAT(check_typed(typed_matrix(f32), numerics, cut).problem, HasSubstr("wrong result"));
  }
}

TEST(TypedCheck, SeesSumsThatAreRoundedOnTheWay) {
  const TypedFault narrow{.partial = [](float partial) {
    return static_cast<float>(rounded_to(bf16, static_cast<double>(partial)));
  }};
  EXPECT_EQ(check_typed(typed_matrix(bf16), k_bf16).problem, "");
  EXPECT_THAT(check_typed(typed_matrix(bf16), k_bf16, narrow).problem,
              HasSubstr("bf16,bf16,bf16 ordered"));
}

TEST(TypedCheck, OfABoundedPromiseAllowsEpsAndNoMore) {
  for (const double eps : {1e-2, 1e-4}) {
    const Numerics numerics{f32, f32, f32, Accumulate::bounded(eps)};
    const auto off_by = [&](double units) {
      const TypedFault off{
          .sum = [=](const TypedSum& sum) { return sum.value + units * eps * sum.magnitude; }};
      return check_typed(typed_matrix(f32), numerics, off);
    };

    EXPECT_EQ(off_by(0.9).problem, "");
    EXPECT_GT(off_by(0.9).max_error_over_bound, 0.8);
    EXPECT_THAT(off_by(1.1).problem, HasSubstr("wrong result"));
    EXPECT_THAT(off_by(-1.1).problem, HasSubstr("wrong result"));
  }
}

TEST(TypedCheck, OfIntegersTakesTheExactSumAlone) {
  // Sums are near 127 * 128 * 3001, beyond 2^24.
  constexpr std::int32_t k_entries = 3001;
  CsrMatrix large{1, k_entries, {0, k_entries}, {}, std::vector<float>(k_entries, 127)};
  for (std::int32_t i = 0; i < k_entries; ++i) large.col_idxs.push_back(i);
  const TypedFault off{.sum = [](const TypedSum& sum) { return sum.value + 1; }};
  const TypedFault as_float{.sum = [](const TypedSum& sum) {
    return static_cast<double>(static_cast<float>(sum.value));
  }};

  EXPECT_EQ(check_typed(large, k_bytes).problem, "");
  EXPECT_EQ(check_typed(large, k_bytes).max_abs_error, 0);
  EXPECT_THAT(check_typed(large, k_bytes, off).problem, HasSubstr("+- 0 "));
  EXPECT_THAT(check_typed(large, k_bytes, as_float).problem, HasSubstr("wrong result"));
}

/// What a wrong kernel makes of a sum, its scales and the bias.
using QuantizedFault = std::function<float(double sum, float b_scale, float scale, float bias)>;

CheckResult check_quantized(const Numerics& numerics, std::int32_t zero_off,
                            const QuantizedFault& element) {
  const CsrMatrix a = typed_matrix(i8);
  const auto run = [&](const Arguments& operands) {
    const auto load = [&](std::int64_t row, std::int64_t j) {
      return load_element(numerics.b, operands.b.data, row * operands.b.ld + j);
    };
    for (std::int64_t j = 0; j < operands.n; ++j) {
      std::vector<float> numbers;
      const bool is_tensor = numerics.quantization == Quantization::tensor;
      for (std::int64_t k = is_tensor ? 0 : j; k < (is_tensor ? operands.n : j + 1); ++k) {
        for (std::int64_t row = 0; row < a.cols; ++row) {
          numbers.push_back(static_cast<float>(load(row, k)));
        }
      }
      const bool is_given = numerics.quantization == Quantization::given;
      const UnitOfBytes unit = is_given ? UnitOfBytes{*operands.b_scale, operands.b_zero_point}
                                        : unit_of_bytes(numbers, numerics.quantization);
      for (std::int64_t row = 0; row < a.rows; ++row) {
        double sum = 0;
        for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
          const double b = load(a.col_idxs[index(i)], j);
          const double q =
              is_given ? b - unit.zero
                       : byte_difference(static_cast<float>(b), unit, numerics.quantization);
          sum += static_cast<double>(a.values[index(i)]) * (q - zero_off);
        }
        const auto value =
            static_cast<double>(element(sum, unit.scale, operands.scale[row], operands.bias[row]));
        store_element(numerics.c, operands.c.data, row * operands.c.ld + j,
                      in_units_of_c(value, numerics.c, operands));
      }
    }
  };
  return check_kernel({.matrix = a,
                       .runs = {{.n = k_typed_n, .b = {k_typed_n}, .c = {k_typed_n}}},
                       .run = run,
                       .epilogue = {.scale = true, .bias = true},
                       .numerics = numerics});
}

TEST(TypedCheck, OfAQuantizedBTakesEachStepAsItIsDefined) {
  const QuantizedFault right = [](double sum, float b_scale, float scale, float bias) {
    return static_cast<float>(sum) * (b_scale * scale) + bias;
  };
  const QuantizedFault in_turn = [](double sum, float b_scale, float scale, float bias) {
    return static_cast<float>(sum) * b_scale * scale + bias;
  };
  const QuantizedFault fused = [](double sum, float b_scale, float scale, float bias) {
    return std::fma(static_cast<float>(sum), b_scale * scale, bias);
  };
  for (const auto& [b, how] : {std::pair{i8, Quantization::given},
                               {u8, Quantization::given},
                               {f32, Quantization::tensor},
                               {f32, Quantization::token}}) {
    const Numerics numerics{i8, b, f32, Accumulate::integer(), how};
    SCOPED_TRACE(to_string(numerics));

    EXPECT_EQ(check_quantized(numerics, 0, right).problem, "");
    EXPECT_EQ(check_quantized(numerics, 0, right).max_abs_error, 0);
    EXPECT_THAT(check_quantized(numerics, 0, in_turn).problem, HasSubstr("+- 0 "));
    EXPECT_THAT(check_quantized(numerics, 0, fused).problem, HasSubstr("+- 0 "));
    EXPECT_THAT(check_quantized(numerics, 1, right).problem, HasSubstr("wrong result"));
    for (const DataType c : {bf16, f16, i8, u8}) {
      EXPECT_EQ(check_quantized({i8, b, c, Accumulate::integer(), how}, 0, right).problem, "");
    }
  }
}

TEST(TypedCheck, SeesIntegersThatWrapAround) {
  const Numerics numerics{i8, i8, i8, Accumulate::integer()};
  const TypedFault wraps{.store = [](DataType, void* c, std::int64_t at, double value) {
    static_cast<std::int8_t*>(c)[at] =
        static_cast<std::int8_t>(static_cast<std::int64_t>(value) & 0xFF);
  }};

  EXPECT_EQ(check_typed(typed_matrix(i8), numerics).problem, "");
  EXPECT_THAT(check_typed(typed_matrix(i8), numerics, wraps).problem, HasSubstr("wrong result"));
}

TEST(TypedCheck, FewElementsOfANarrowCAreAtTheEndOfItsRange) {
  for (const bool has_scale : {true, false}) {
    const CsrMatrix matrix = typed_matrix(i4);
    std::int64_t inside = 0;
    std::int64_t all = 0;
    const auto run = [&](const Arguments& operands) {
      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        for (std::int64_t j = 0; j < operands.n; ++j) {
          double sum =
              typed_sum(matrix, {i4, i8, i8, Accumulate::integer()}, operands, row, j, {}).value;
          if (has_scale) sum *= static_cast<double>(operands.scale[row]);
          const double byte = in_units_of_c(sum, i8, operands);
          ++all;
          if (std::abs(byte) < 127) ++inside;
          store_element(i8, operands.c.data, row * operands.c.ld + j, byte);
        }
      }
    };
    const CheckRun only{.n = k_typed_n, .b = {k_typed_n}, .c = {k_typed_n}};

    EXPECT_EQ(check_kernel({.matrix = matrix,
                            .runs = {only},
                            .run = run,
                            .epilogue = {.scale = has_scale},
                            .numerics = {i4, i8, i8, Accumulate::integer()}})
                  .problem,
              "");
    EXPECT_GT(inside, all * 3 / 4) << has_scale;
  }
}

TEST(TypedCheck, SeesAnElementThatIsNotWritten) {
  for (const DataType c : {bf16, f16, i32, i8, u8}) {
    const Numerics numerics{bf16, bf16, c, {}};
    const TypedFault hole{.store = [](DataType type, void* to, std::int64_t at, double value) {
      if (at % (k_typed_n * 2) != 17) store_element(type, to, at, value);
    }};

    EXPECT_THAT(check_typed(typed_matrix(bf16), numerics, hole).problem,
                HasSubstr("was not written"))
        << to_string(c);
  }
}

TEST(TypedCheck, SeesWhatIsWrittenOutsideOfC) {
  for (const DataType c : {bf16, f16, i32, i8, u8}) {
    const Numerics numerics{bf16, bf16, c, {}};
    const auto spill = [&](std::int64_t at) {
      return check_typed(typed_matrix(bf16), numerics, {},
                         [=](const Arguments& operands) {
                           const std::int64_t past =
                               operands.c.ld > k_typed_n ? k_typed_n : 30 * k_typed_n;
                           store_element(c, operands.c.data, at < 0 ? at : past, -91);
                         })
          .problem;
    };

    EXPECT_THAT(spill(0), HasSubstr("the kernel wrote outside C, behind")) << to_string(c);
    EXPECT_THAT(spill(-1), HasSubstr("the kernel wrote outside C, in front")) << to_string(c);
  }
}

TEST(TypedCheck, SeesAByteThatHappensToBeAGuard) {
  const auto guard = static_cast<std::int8_t>(0xA5);
  const CheckResult result = check_typed(
      typed_matrix(bf16), {bf16, bf16, i8, {}}, {},
      [&](const Arguments& operands) { store_element(i8, operands.c.data, -1, guard); });

  EXPECT_THAT(result.problem, HasSubstr("the kernel wrote outside C"));
}

TEST(TypedCheck, EmptyRowsOfFloatsArePlusZero) {
  CsrMatrix matrix = typed_matrix(bf16);
  matrix.rows += 1;
  matrix.row_ptrs.push_back(matrix.nnz());
  const TypedFault minus{
      .sum = [](const TypedSum& sum) { return sum.magnitude == 0 ? -0.0 : sum.value; }};

  EXPECT_EQ(check_typed(matrix, k_bf16).problem, "");
  EXPECT_THAT(check_typed(matrix, k_bf16, minus).problem, HasSubstr("expected +0"));
}

TEST(ElementOfC, HasTheBoundOfItsType) {
  const Reference sum{100, 1e-6, false};
  const auto bound_of = [&](DataType c) {
    return element_of_c(sum, {f32, f32, c, {}}, {}, {}).bound;
  };

  EXPECT_EQ(bound_of(f32), 1e-6);
  EXPECT_NEAR(bound_of(bf16), 100 * 0x1p-8, 1e-5);
  EXPECT_NEAR(bound_of(f16), 100 * 0x1p-11, 1e-5);
  EXPECT_NEAR(bound_of(i8), 0.5, 1e-5);
}

TEST(ElementOfC, OfIntegersIsTheRoundedSum) {
  const auto element = [](DataType c, double sum) {
    return element_of_c({sum, 0, false}, {i8, i8, c, Accumulate::integer()}, {}, {});
  };

  EXPECT_EQ(element(f32, 16'777'217).value, 16'777'216);
  EXPECT_EQ(element(bf16, 257).value, 256);
  EXPECT_EQ(element(u8, -3).value, 0);
  EXPECT_EQ(element(i32, 16'777'217).bound, 0);
}

TEST(ElementOfC, WithAnEpilogueIsRoundedToFloatFirst) {
  const Epilogue relu{.activation = Activation::relu};
  const Reference exact =
      element_of_c({16'777'217, 0, false}, {i8, i8, i32, Accumulate::integer()}, relu, {});

  EXPECT_GE(exact.bound, 1.5);
  EXPECT_LE(exact.bound, 2.5);
}

TEST(ElementOfC, SaturatesAndTakesNanForZeroOrTheLeastByte) {
  constexpr double k_no_number = std::numeric_limits<double>::quiet_NaN();
  const auto element = [](DataType c, double sum, bool may_overflow = false) {
    return element_of_c({sum, 0.25, may_overflow}, {f32, f32, c, {}}, {}, {});
  };

  EXPECT_EQ(element(i8, 1000).value, 127);
  EXPECT_EQ(element(i8, k_no_number).value, -128);
  EXPECT_EQ(element(i32, k_no_number).value, 0);
  EXPECT_EQ(element(i8, 5, true).bound, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(element(bf16, k_no_number).value));
  EXPECT_TRUE(element(f16, 65'510).may_overflow);
  EXPECT_FALSE(element(f16, 65'000).may_overflow);
}

TEST(ElementOfC, OfBytesHasTheirScaleAndZeroPoint) {
  const EpilogueValues of_c{.c = {0.25F, 10}};
  const auto exact = [&](DataType c, double sum) {
    return element_of_c({sum, 0, false}, {i8, i8, c, Accumulate::integer()}, {}, of_c);
  };
  const Reference in_order = element_of_c({3.1, 0.125, false}, {f32, f32, u8, {}}, {}, of_c);

  EXPECT_EQ(exact(i8, 5).value, 30);
  EXPECT_EQ(exact(i8, 5).bound, 0);
  EXPECT_EQ(exact(u8, -3).value, 0);
  EXPECT_NEAR(in_order.value, 22.4, 1e-6);
  EXPECT_NEAR(in_order.bound, 1, 1e-5);
}

TEST(ElementOfC, AddsABiasFirst) {
  const Epilogue first{.scale = true, .bias = true, .bias_first = true};
  const EpilogueValues values{.b_scale = 0.5F, .scale = 3, .bias = 7};
  const auto element = [&](const Numerics& numerics) {
    return element_of_c({5, 0, false}, numerics, first, values).value;
  };

  EXPECT_EQ(element({f32, f32, f32, {}}), 36);
  EXPECT_EQ(element({i8, u8, f32, Accumulate::integer(), Quantization::given}), 18);
}

TEST(TypedCheck, SeesAnotherZeroPointOfC) {
  const Numerics numerics{bf16, bf16, u8, {}};
  const TypedFault off{.store = [](DataType type, void* c, std::int64_t at, double value) {
    store_element(type, c, at, value + 2);
  }};

  EXPECT_EQ(check_typed(typed_matrix(bf16), numerics).problem, "");
  EXPECT_THAT(check_typed(typed_matrix(bf16), numerics, off).problem, HasSubstr("wrong result"));
}

TEST(TypedCheck, EmptyRowsOfBytesAreTheZeroPoint) {
  CsrMatrix matrix = typed_matrix(bf16);
  matrix.rows += 1;
  matrix.row_ptrs.push_back(matrix.nnz());
  const TypedFault off{
      .sum = [](const TypedSum& sum) { return sum.magnitude == 0 ? 1.0 : sum.value; }};

  EXPECT_EQ(check_typed(matrix, {bf16, bf16, u8, {}}).problem, "");
  EXPECT_THAT(check_typed(matrix, {bf16, bf16, u8, {}}, off).problem, HasSubstr("expected +131"));
}

TEST(TypedVerification, PassesWhatReferenceComputes) {
  CompileOptions options = options_of();
  options.verify = VerifyMode::full;
  const Compiler compiler(options, uncached());
  const auto verified = [&](const Numerics& numerics, const Epilogue& epilogue, Layout layout) {
    Problem problem = problem_of(typed_matrix(numerics.a), 19);
    problem.numerics = numerics;
    problem.epilogue = epilogue;
    problem.b.layout = problem.c.layout = layout;
    return compiler.compile(problem).info().verification;
  };
  const Epilogue whole{
      .scale = true, .bias = true, .residual = true, .activation = Activation::silu};
  for (const DataType c : {f32, bf16, f16, i32, i8, u8}) {
    for (const Epilogue& epilogue : {Epilogue{}, whole}) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        for (const Numerics& numerics :
             {Numerics{bf16, f16, c, {}}, Numerics{i8, u8, c, Accumulate::integer()},
              Numerics{f16, i8, c, Accumulate::bounded(1e-9)}}) {
          const Verification verification = verified(numerics, epilogue, layout);
          EXPECT_TRUE(verification.complete()) << to_string(numerics);
          EXPECT_LE(verification.max_error_over_bound, 1) << to_string(numerics);
        }
      }
    }
  }
}

/// A stored kernel of other numerics.
std::shared_ptr<const Kernel::Impl> stored_kernel(const Problem& problem, HostArtifact artifact) {
  const KernelFamily& family = find_family("reference");
  auto code = std::make_shared<const BuiltFiles>(
      family, std::vector<Artifact::File>{object_file(artifact.image())});
  nlohmann::json record = {{"family", "reference"}, {"problem", to_json(problem)}};
  LoadedKernel loaded = code->load(record, HostDevice{}, {});
  return std::make_shared<const Kernel::Impl>(family, std::move(loaded), std::move(code),
                                              std::move(record));
}

TEST(TypedStoredKernel, IsReadBackAndChecked) {
  for (const bool runtime_values : {false, true}) {
    Problem problem = problem_of(typed_matrix(i8), 9);
    problem.numerics = k_bytes;
    problem.runtime_values = runtime_values;
    problem = checked_problem(problem);
    HostArtifact artifact = make_csr_artifact(problem, "reference", Target().isa());

    const StoredVerdict verdict =
        check_stored_kernel(*stored_kernel(problem, artifact), VerifyMode::full);
    EXPECT_TRUE(verdict.passed()) << verdict.problem << verdict.not_checked;
    EXPECT_EQ(verdict.verification.max_abs_error, 0);
    if (runtime_values) continue;
    artifact.weights.front() = std::bit_cast<std::uint32_t>(1 - problem.a->values.front());

    EXPECT_FALSE(check_stored_kernel(*stored_kernel(problem, artifact), VerifyMode::full).passed());
  }
}

TEST(TypedStoredKernel, HasItsNumericsInItsImageAlone) {
  Problem problem = problem_of(typed_matrix(i8), 9);
  problem.numerics = k_bytes;
  const HostArtifact artifact = make_csr_artifact(problem, "reference", Target().isa());

  EXPECT_EQ(stored_kernel(problem, artifact)->info.numerics, k_bytes);
}

TEST(ReadBackValues, AreOfTheirType) {
  for (const DataType type : {f32, bf16, f16, i32, i8, u8, i4}) {
    for (std::int64_t i = 0; i < 2000; ++i) {
      ASSERT_TRUE(is_exact_in(type, read_back_value(i, type))) << to_string(type) << i;
      ASSERT_NE(read_back_value(i, type), read_back_value(i + 1, type));
    }
  }
}

}  // namespace
