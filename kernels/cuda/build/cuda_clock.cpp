#include "kernels/cuda/build/cuda_clock.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/arithmetic.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Operands begin at multiples of it: none reaches the next one.
constexpr std::uint64_t k_operand_distance = std::uint64_t{1} << 36;

/// The parameters of CudaParameters in their order. A batch is one product: no distances.
std::vector<std::uint64_t> common_parameters(const Problem& problem) {
  const auto at = [](std::uint64_t operand) { return operand * k_operand_distance; };
  const auto size = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  return {at(1),
          at(2),
          at(3),
          at(4),
          at(5),
          size(problem.n.value),
          size(problem.ldb()),
          size(problem.ldc()),
          size(problem.ldc()),
          0,
          0,
          0,
          at(6)};
}

}  // namespace

ClockLaunch clock_launch(const Problem& problem, std::span<const std::byte> cubin,
                         const char* kernel, const ClockShape& shape) {
  const CubinInfo info = read_cubin_info(cubin);
  const CubinKernel* const found = info.find_kernel(kernel);
  if (found == nullptr) throw Error(fmt::format("the cubin has no kernel {}", kernel));
  const std::vector<std::uint64_t> values = common_parameters(problem);
  if (found->parameters.size() > values.size()) {
    throw NotSupported(fmt::format("{} has {} parameters, of which {} are known", kernel,
                                   found->parameters.size(), values.size()));
  }
  ClockLaunch launch;
  launch.kernel = kernel;
  launch.grid = shape.grid;
  launch.block = shape.block;
  launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
  launch.parameters.resize(to_size(found->parameter_bytes));
  for (std::size_t i = 0; i < found->parameters.size(); ++i) {
    const CubinParameter& parameter = found->parameters[i];
    const std::size_t bytes = to_size(parameter.size);
    if (bytes > sizeof values[i] || to_size(parameter.offset) + bytes > launch.parameters.size()) {
      throw NotSupported(fmt::format("parameter {} of {} has {} bytes", i, kernel, bytes));
    }
    std::memcpy(launch.parameters.data() + parameter.offset, &values[i], bytes);
  }
  const std::int64_t floats = checked_add(
      checked_multiply(problem.b_rows(), problem.b_columns(), "floats of B"),
      checked_multiply(problem.a->rows, problem.n.value, "floats of C"), "floats of operands");
  launch.touched_bytes = checked_multiply(floats, sizeof(float), "bytes of operands");
  return launch;
}

}  // namespace spjit
