// Kernels that take A's values at run time, executed on the emulated driver: C has the bits that
// the host's family `reference` gives with those values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/cuda_layers.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// With every kind of float among its values, from the first on.
CsrMatrix with_unusual_values(CsrMatrix matrix) {
  const std::vector<float> unusual = unusual_values();
  for (std::size_t i = 0; i < matrix.values.size(); i += 3) {
    matrix.values[i] = unusual[i / 3 % unusual.size()];
  }
  return matrix;
}

class CudaValuesAtRunTime : public ::testing::Test {
 protected:
  [[nodiscard]] static CudaKernelSpec spec_of(std::int64_t m1, std::int64_t n) {
    CudaKernelSpec spec = cuda_spec(m1, n);
    spec.layer.runtime_values = true;
    return spec;
  }

  static void expect_reference(const LayerCase& item) {
    SCOPED_TRACE(std::to_string(item.matrix.rows) + "x" + std::to_string(item.matrix.cols) + " n " +
                 std::to_string(item.sizes.n) + " " + to_string(item.spec.tile));
    const LayerOperands operands(item);
    const std::vector<float> expected = reference_layer(item, operands);
    const Kernel kernel = layer_kernel(item);
    const Activation activation = item.spec.layer.epilogue.activation;

    EXPECT_TRUE(kernel.info().runtime_values);
    EXPECT_TRUE(same_layer(run_layer(kernel, operands), expected, activation));
    EXPECT_TRUE(same_layer(launch_layer(kernel, operands), expected, activation));
  }

  template <class Work>
  static std::string refusal(const Work& work) {
    try {
      work();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_F(CudaValuesAtRunTime, HaveTheBitsOfTheReferenceOnPlantedCases) {
  for (const auto& [name, planted] : planted_cases()) {
    CudaCase item = planted;
    item.spec.layer.runtime_values = true;
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));

    EXPECT_TRUE(same_bits(run_ptx(ptx_of(item), item), expected_c(item)));
  }
}

TEST_F(CudaValuesAtRunTime, AreTheOnesThatWerePreparedWhateverTheyAre) {
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  for (const CsrMatrix& matrix :
       {random_matrix(1, 1, 0), random_matrix(1, 50, 0.5), random_matrix(50, 1, 0.5),
        random_matrix(37, 45, 0.6), with_dense_row(37, 40), nothing, no_columns,
        with_empty_rows(200)}) {
    for (const bool runtime_sizes : {false, true}) {
      CudaKernelSpec spec = spec_of(16, 33);
      spec.tile.runtime_sizes = runtime_sizes;
      spec.tile.unit_nonzeros = runtime_sizes ? 30 : 100'000;
      expect_reference(layer_case(with_unusual_values(matrix), spec));
    }
  }
}

TEST_F(CudaValuesAtRunTime, GoWithEveryLayoutEpilogueBatchAndN) {
  std::mt19937_64 random(20261123);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  constexpr std::array k_drawn_activations = {Activation::none, Activation::relu,
                                              Activation::gelu_erf, Activation::gelu_tanh,
                                              Activation::silu};
  for (int i = 0; i < 120; ++i) {
    const CsrMatrix matrix =
        random_matrix(pick(1, 60), pick(1, 60), static_cast<double>(pick(0, 100)) / 100, random());
    CudaKernelSpec spec = spec_of(pick(1, 40), pick(1, 70));
    spec.layer.b_layout = pick(0, 1) == 1 ? Layout::tokens_major : Layout::row_major;
    spec.layer.c_layout = pick(0, 1) == 1 ? Layout::tokens_major : Layout::row_major;
    const std::int64_t width = spec.layer.has_tokens_of_c() ? matrix.rows : spec.n;
    spec.ldb = (spec.layer.has_tokens_of_b() ? matrix.cols : spec.n) + pick(0, 3);
    spec.ldc = width + pick(0, 3);
    spec.tile.n1 = std::array{32, 64, 160}[index(pick(0, 2))];
    spec.tile.unit_nonzeros = pick(1, 1000);
    spec.tile.runtime_sizes = pick(0, 1) == 1;
    spec.layer.epilogue = {.scale = pick(0, 1) == 1,
                           .bias = pick(0, 1) == 1,
                           .residual = pick(0, 1) == 1,
                           .activation = k_drawn_activations[index(pick(0, 4))]};
    LayerCase item = layer_case(matrix, spec);
    item.reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    item.sizes.residual.ld = width + pick(0, 5);
    item.sizes.batch = pick(1, 3);
    item.sizes.b.distance = pick(0, 2000);
    item.sizes.c.distance =
        extent_of(spec.layer.c_layout, matrix.rows, spec.n, spec.ldc) + pick(0, 9);
    item.sizes.residual.distance = pick(0, 2000);
    SCOPED_TRACE(i);
    expect_reference(item);
  }
}

TEST_F(CudaValuesAtRunTime, OfTwoCheckpointsAreUsedByOneKernelAtOnce) {
  const LayerCase first = layer_case(random_matrix(40, 50, 0.6, 1), spec_of(8, 37));
  LayerCase second = first;
  for (float& value : second.matrix.values) value = 2 - value;
  const Kernel kernel = layer_kernel(first);
  LayerOperands of_first(first);
  LayerOperands of_second(second);

  const PreparedValues values = of_first.values_for(kernel);
  const PreparedValues others = of_second.values_for(kernel);
  for (int round = 0; round < 2; ++round) {
    for (auto& [operands, prepared] : {std::pair{&of_first, &values}, {&of_second, &others}}) {
      Arguments arguments = operands->arguments();
      arguments.values = prepared;
      kernel.run(arguments);
    }
  }

  EXPECT_TRUE(same_bits(of_first.c(), reference_layer(first, LayerOperands(first))));
  EXPECT_TRUE(same_bits(of_second.c(), reference_layer(second, LayerOperands(second))));
  EXPECT_FALSE(same_bits(of_first.c(), of_second.c()));
}

TEST_F(CudaValuesAtRunTime, OutliveTheKernelAndGiveTheirMemoryBack) {
  const CudaContext context(local_cuda_driver(), 0);
  const CsrMatrix matrix = random_matrix(40, 50, 0.6);
  std::optional<Kernel> kernel = layer_kernel(layer_case(matrix, spec_of(8, 9)));
  std::optional<PreparedValues> values = kernel->prepare_values(matrix.values);
  std::optional<PreparedValues> copy = values;
  const auto address =
      std::bit_cast<CudaAddress>(dynamic_cast<const CudaValues&>(*values->stream()).data());
  float first = 0;
  const auto read = [&] {
    context.call([] { return std::string("read a value"); }, &CudaApi::download, &first, address,
                 sizeof first);
  };

  kernel.reset();
  values.reset();

  EXPECT_NO_THROW(read());
  EXPECT_NE(first, 0);
  copy.reset();
  EXPECT_THROW(read(), DeviceError);
}

TEST_F(CudaValuesAtRunTime, RefusesValuesThatAreNotItsOwn) {
  const LayerCase item = layer_case(random_matrix(20, 30, 0.5), spec_of(8, 9));
  const Kernel kernel = layer_kernel(item);
  const Kernel again = kernel.load();
  LayerCase baked = item;
  baked.spec.layer.runtime_values = false;
  const Kernel own = layer_kernel(baked);
  LayerOperands operands(item);
  const PreparedValues none;
  const PreparedValues values = operands.values_for(kernel);
  const auto run = [&](const Kernel& with, const PreparedValues* given) {
    Arguments arguments = operands.arguments();
    arguments.values = given;
    return refusal([&] { with.run(arguments); }) + refusal([&] { with.launch(arguments); });
  };

  EXPECT_THAT(run(kernel, nullptr), HasSubstr("values is null"));
  EXPECT_THAT(run(kernel, &none), HasSubstr("values is null"));
  EXPECT_THAT(run(again, &values), HasSubstr("values were prepared for another kernel"));
  EXPECT_THAT(run(own, &values), HasSubstr("compiled with its own"));
  EXPECT_THAT(refusal([&] { static_cast<void>(own.prepare_values(item.matrix.values)); }),
              HasSubstr("this kernel has A's values"));
  EXPECT_THAT(refusal([&] { static_cast<void>(kernel.prepare_values(std::vector<float>(3))); }),
              HasSubstr("3 values; expected " + std::to_string(item.matrix.nnz())));
}

TEST_F(CudaValuesAtRunTime, ArePreparedByAKernelInAGpu) {
  const LayerCase item = layer_case(random_matrix(20, 30, 0.5), spec_of(8, 9));
  const KernelPlan plan = plan_of(item);
  Artifact artifact =
      ptx_artifact(join_texts(emit_ptx(plan, item.spec, 90)),
                   record_of(make_program(plan, item.spec, 90), item.spec.tile).dump());
  add_positions(artifact, value_positions(plan));
  const Kernel kernel = Kernel::from_artifact(std::move(artifact));

  EXPECT_THAT(refusal([&] { static_cast<void>(kernel.prepare_values(item.matrix.values)); }),
              HasSubstr("is in no GPU; load it first"));
}

TEST_F(CudaValuesAtRunTime, WithoutTheirPositionsAreRefused) {
  const LayerCase item = layer_case(random_matrix(20, 30, 0.5), spec_of(8, 9));
  const KernelPlan plan = plan_of(item);
  const std::string ptx = join_texts(emit_ptx(plan, item.spec, 90));
  const std::string record = record_of(make_program(plan, item.spec, 90), item.spec.tile).dump();
  std::vector<std::uint32_t> twice = value_positions(plan);
  twice[1] = twice[0];
  const auto refused = [](Artifact artifact) {
    try {
      static_cast<void>(Kernel::from_artifact(std::move(artifact)));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  EXPECT_THAT(refused(ptx_artifact(ptx, record)), HasSubstr("the positions of a CUDA kernel's"));
  Artifact damaged = ptx_artifact(ptx, record);
  add_positions(damaged, twice);
  EXPECT_THAT(refused(damaged), HasSubstr("twice or without need"));
}

TEST_F(CudaValuesAtRunTime, AnotherValueOrOrderIsNoticed) {
  CudaCase item =
      make_cuda_case(random_matrix(60, 50, 0.6), cuda_spec(8, 5), ReorderAlgorithm::similarity);
  item.spec.layer.runtime_values = true;
  const std::string ptx = ptx_of(item);
  const auto changed = [&ptx](const std::string& from, const std::string& to) {
    std::string text = ptx;
    const std::size_t place = text.find(from);
    if (place == std::string::npos) return std::string("no ") + from;
    return text.replace(place, from.size(), to);
  };

  EXPECT_TRUE(is_right(ptx, item));
  EXPECT_FALSE(is_right(changed("[pvalues+16]", "[pvalues+32]"), item));
  EXPECT_FALSE(is_right(changed("{a0,a1,a2,a3}", "{a1,a0,a2,a3}"), item));
  EXPECT_FALSE(is_right(changed("[pvalues+16]", "[pvalues+1000000]"), item)) << "beyond the stream";
}

}  // namespace
