#pragma once

/// @file
/// Kernels of a bundle that run in a session of ONNX Runtime, and its tensors.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "bindings/ort/api.hpp"
#include "spjit.h"

namespace spjit::ort {

using Shape = std::vector<std::int64_t>;

/// Where a kernel comes from, and its threads.
struct KernelSource {
  std::string path;     ///< of a bundle
  std::string layer;    ///< its name there
  std::string problem;  ///< JSON: what it has to compute, as `computes()` has it
  std::int32_t threads = 1;
};

struct DestroyKernel {
  void operator()(spjit_kernel* kernel) const { spjit_kernel_destroy(kernel); }
};
using OwnedKernel = std::unique_ptr<spjit_kernel, DestroyKernel>;

/// Its runs have their threads in the pool of the session that runs them: run_in_session(). Throws
/// Error with what spjit says.
[[nodiscard]] OwnedKernel load_kernel(const spjit_bundle* bundle, const KernelSource& source);

/// JSON of spjit_kernel_info().
[[nodiscard]] const char* info_of(const spjit_kernel* kernel);

/// `run` gives a status of spjit.h. Throws Error with what spjit or ONNX Runtime says.
void run_in_session(const Api& api, const KernelContext* context, FunctionRef<int()> run);

struct Tensor {
  void* data = nullptr;
  Shape shape = {};
  int element = 0;  ///< its type: k_float_element and so on

  [[nodiscard]] float* floats() const noexcept { return static_cast<float*>(data); }
};

[[nodiscard]] Tensor tensor_of(const Api& api, const Value* value);

/// Throws InvalidArgument, with the input's `name`, for another shape.
void check_shape(const Tensor& tensor, const char* name, const Shape& expected);

/// An input of that shape; none where the node has none. Throws InvalidArgument, with the input's
/// `name`, for another shape.
[[nodiscard]] std::optional<Tensor> optional_input(const Api& api, const KernelContext* context,
                                                   std::size_t index, const char* name,
                                                   const Shape& expected);

/// Elements of dimensions.
[[nodiscard]] std::int64_t count(Shape::const_iterator first, Shape::const_iterator last);
[[nodiscard]] inline std::int64_t count(const Shape& shape) {
  return count(shape.begin(), shape.end());
}

}  // namespace spjit::ort
