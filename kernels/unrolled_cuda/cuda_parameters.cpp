#include "kernels/unrolled_cuda/cuda_parameters.hpp"

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

const float* values_of(const Arguments& arguments) {
  const PreparedValues::Stream* stream =
      arguments.values == nullptr ? nullptr : arguments.values->stream();
  return stream == nullptr ? nullptr : dynamic_cast<const CudaValues&>(*stream).data();
}

}  // namespace

CudaParameters::CudaParameters(const Arguments& arguments)
    : arguments_(arguments),
      n_(checked_cast<unsigned>(arguments.n, "n")),
      ldb_(checked_cast<unsigned>(arguments.ldb, "ldb")),
      ldc_(checked_cast<unsigned>(arguments.ldc, "ldc")),
      ldr_(checked_cast<unsigned>(arguments.ldr, "ldr")),
      values_(values_of(arguments)),
      places_{&arguments_.b,
              &arguments_.c,
              &arguments_.scale,
              &arguments_.bias,
              &arguments_.residual,
              &n_,
              &ldb_,
              &ldc_,
              &ldr_,
              &arguments_.b_distance,
              &arguments_.c_distance,
              &arguments_.residual_distance,
              &values_} {}

}  // namespace spjit
