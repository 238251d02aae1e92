// Cubins of the families that read A, executed: C has the bits of the host's family `reference`, on
// sm_75, sm_80 and sm_90, wherever the operands lie.

#include <gtest/gtest.h>

#include <string>

#include "spjit/compiler.hpp"
#include "tests/nvrtc/sass/sass_testing.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/cuda/cuda_convolutions.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class ReadingSass : public OnDevice {
 protected:
  void expect_reference(const LayerCase& item, const std::string& family, CudaSource source,
                        DataType type = DataType::f32) const {
    const Activation activation = item.spec.layer.epilogue.activation;
    SCOPED_TRACE(family + " of " + std::string(to_string(source)) + " " +
                 std::string(to_string(item.spec.layer.b_layout)) + " to " +
                 std::string(to_string(item.spec.layer.c_layout)) + " " +
                 std::string(to_string(activation)));
    CompileOptions options = gpu_options("sm_" + std::to_string(arch()), family);
    options.policy.values["source"] = to_string(source);
    CacheOptions uncached;
    uncached.enabled = false;
    const Kernel kernel =
        Compiler(options, uncached).compile(problem_of(item, type)).load(device().ordinal);
    for (const bool has_special_values : {false, true}) {
      const LayerOperands operands(item, has_special_values);
      const std::vector<float> expected = reference_layer(item, operands);
      for (const Shifts& shifts : {Shifts{}, Shifts{1, 2, 0}}) {
        EXPECT_TRUE(same_layer(launch_shifted(kernel, operands, shifts), expected, activation));
      }
    }
  }

  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
};

TEST_P(ReadingSass, HasTheLayersOfTheReference) {
  for (const char* family : in_turn<const char*>({"csr", "dense", "narrow", "packed"})) {
    unsigned bits = 0;
    for (const Activation activation : k_activations) {
      const LayerCase item = mixed_layer(bits, activation);
      expect_reference(item, family, CudaSource::ptx);
      // NVRTC takes ten times as long: some.
      if (bits % 3 == 0) expect_reference(item, family, CudaSource::cuda);
      ++bits;
    }
  }
}

TEST_P(ReadingSass, HasTheHalvesOfTheReference) {
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    for (const unsigned bits : {0U, 1U, 2U, 3U}) {
      expect_reference(in_type(mixed_layer(bits, Activation::relu), type), "packed",
                       bits == 1 ? CudaSource::cuda : CudaSource::ptx, type);
    }
  }
}

TEST_P(ReadingSass, HasTheConvolutionsOfTheReference) {
  unsigned bits = 0;
  for (const Convolution& of : geometries()) {
    Problem problem = problem_of_convolution(of, 16);
    problem.b.layout = bits % 2 == 0 ? Layout::tokens_major : Layout::row_major;
    problem.c.layout = bits % 3 == 0 ? Layout::tokens_major : Layout::row_major;
    const LayerCase item = convolution_case(problem, 5);
    ++bits;
    if (!item.spec.layer.convolution || bits % 2 == 0) continue;
    expect_reference(item, "csr", bits % 4 == 1 ? CudaSource::ptx : CudaSource::cuda);
  }
}

/// Many columns, and rows of all lengths.
TEST_P(ReadingSass, HasTheProductsOfTheReference) {
  for (const char* family : in_turn<const char*>({"csr", "dense", "narrow", "packed"})) {
    for (const std::int64_t n : {1, 8, 33, 130}) {
      for (const CsrMatrix& matrix : {with_empty_rows(70), random_matrix(130, 300, 0.5)}) {
        SCOPED_TRACE(testing::Message() << matrix.rows << "x" << matrix.cols << ", n " << n);
        const LayerCase item = layer_case(matrix, cuda_spec(4, n));
        if (reading_refusal(problem_of(item), family)) continue;

        expect_reference(item, family, CudaSource::ptx);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cubins, ReadingSass, ::testing::ValuesIn(k_device_archs), device_name);

}  // namespace
