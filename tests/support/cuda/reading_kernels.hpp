#pragma once

/// @file
/// Kernels for GPUs that read A, of any family, made of their PTX: no compiler is needed, and the
/// emulated driver runs them.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "kernels/cuda/launch/reading_choice.hpp"
#include "plan/elements.hpp"
#include "plan/problem.hpp"
#include "spjit/kernel.hpp"
#include "tests/support/cuda/cuda_layers.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline const ReadingCudaFamily& reading_family(const std::string& name) {
  return dynamic_cast<const ReadingCudaFamily&>(find_family(name, "cuda"));
}

/// A batch of two products whose operands, layout, distances, sizes and values at run time go with
/// the bits of a number.
[[nodiscard]] inline LayerCase mixed_layer(unsigned bits, Activation activation) {
  CudaKernelSpec spec = cuda_spec(4, bits % 2 == 0 ? 12 : 15);
  spec.layer.epilogue = epilogue_of(bits % 8, activation);
  spec.layer.runtime_values = bits % 3 == 2;
  spec.tile.runtime_sizes = bits % 2 == 1;
  LayerCase item = layer_case(random_matrix(37, 40, 0.6, bits + 1), spec);
  item.sizes.batch = 2;
  item = in_layouts(item, k_all_layouts.at(bits % 4), bits % 2 == 0 ? 4 : 1);
  item.sizes.b.distance = 41 * 60;
  item.sizes.c.distance = item.sizes.residual.distance = 38 * 64;
  return item;
}

[[nodiscard]] inline CompileOptions gpu_options(const std::string& target = "sm_90",
                                                const std::string& family = {}) {
  CompileOptions options;
  options.target = Target::parse(target);
  options.policy.family = family;
  return options;
}

/// Whether the family takes such a problem.
[[nodiscard]] inline Refusal reading_refusal(const Problem& given, const std::string& family) {
  const Problem problem = checked_problem(given);
  const CompileOptions options = gpu_options("sm_90", family);
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family(family, "cuda"), {problem, options, device, {}});
}

/// The two texts of the kernel that the family would build.
[[nodiscard]] inline CudaCode::Texts reading_texts(const Problem& given,
                                                   const std::string& family) {
  const Problem problem = checked_problem(given);
  const CompileOptions options = gpu_options("sm_90", family);
  const DeviceInfo device = device_info_of(options.target);
  return reading_family(family).code({problem, options, device, {}}).texts;
}

/// The artifact that the family would build, but for the cubin, for which there is PTX.
[[nodiscard]] inline Artifact reading_artifact(const Problem& given, const std::string& family,
                                               const std::string& ptx) {
  const Problem problem = checked_problem(given);
  const CompileOptions options = gpu_options("sm_90", family);
  const DeviceInfo device = device_info_of(options.target);
  const FamilyRequest request{problem, options, device, {}};
  const ReadingChoice choice = reading_family(family).choice(request);
  const nlohmann::json record = {{"family", family},
                                 {"target", options.target.name()},
                                 {"program", choice.program},
                                 {"tile", choice.tile},
                                 {"device", "H100"},
                                 {"search", {{"reason", ""}}},
                                 {"resources",
                                  {{"predicted_registers", 0},
                                   {"registers", 0},
                                   {"spilled_bytes", 0},
                                   {"active_blocks", 0},
                                   {"code_bytes", 0}}},
                                 {"compiled_from", "ptx"},
                                 {"toolchain", ""},
                                 {"note", ""}};
  Artifact artifact = ptx_artifact(ptx, record.dump());
  artifact.add(k_matrix_file, write_cuda_matrix(*problem.a, !problem.runtime_values, {}));
  return artifact;
}
[[nodiscard]] inline Artifact reading_artifact(const Problem& problem, const std::string& family) {
  return reading_artifact(problem, family, reading_texts(problem, family).ptx);
}

/// It, in the emulated GPU (SPJIT_CUDA_DRIVER must name it).
[[nodiscard]] inline Kernel reading_kernel(const Problem& problem, const std::string& family) {
  return Kernel::from_artifact(reading_artifact(problem, family)).load();
}

/// Of a case; A's values at run time are all others in the kernel, which must have none of them.
[[nodiscard]] inline Problem problem_of(const LayerCase& item) {
  const CudaLayer& layer = item.spec.layer;
  CsrMatrix matrix = item.matrix;
  if (layer.runtime_values) std::ranges::fill(matrix.values, k_untouched);
  Problem problem;
  problem.a = std::move(matrix);
  problem.n = item.spec.n;
  problem.n.runtime = item.spec.tile.runtime_sizes;
  problem.b = {item.spec.ldb, layer.b_layout};
  problem.c = {item.spec.ldc, layer.c_layout};
  problem.epilogue = layer.epilogue;
  problem.runtime_values = layer.runtime_values;
  problem.convolution = layer.convolution;
  if (problem.convolution) problem.operation = Operation::conv2d;
  return problem;
}

/// A case whose A has values of a type.
[[nodiscard]] inline LayerCase in_type(LayerCase item, DataType type) {
  for (float& value : item.matrix.values) value = static_cast<float>(rounded_to(type, value));
  return item;
}
/// Of such a case, with A of that type.
[[nodiscard]] inline Problem problem_of(const LayerCase& item, DataType type) {
  Problem problem = problem_of(item);
  problem.numerics.a = type;
  if (type == DataType::f32 || !problem.runtime_values) return problem;
  CsrMatrix others = *problem.a;
  std::ranges::fill(others.values, 0.25F);  // which halves have
  problem.a = std::move(others);
  return problem;
}

/// Floats by which pointers of a launch miss what device memory is aligned to.
struct Shifts {
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t residual = 0;
};

/// C after a launch whose operands lie at the end of an allocation each, so that what is read or
/// written behind one is an error.
[[nodiscard]] inline std::vector<float> launch_shifted(const Kernel& kernel, LayerOperands operands,
                                                       const Shifts& shifts) {
  const CudaContext context(local_cuda_driver(), kernel.device());
  std::vector<DeviceBuffer> buffers;
  const Arguments host = operands.arguments();
  Arguments device = host;
  const auto upload = [&](const float* from, std::size_t count, std::int64_t shift) -> float* {
    const std::size_t before = index(shift) * sizeof(float);
    buffers.emplace_back(context, before + std::max<std::size_t>(count, 1) * sizeof(float));
    buffers.back().upload(std::as_bytes(std::span(from, count)), before);
    return static_cast<float*>(buffers.back().pointer()) + shift;
  };
  const std::size_t rows = index(kernel.rows());
  device.c = upload(host.c.as<float>(), operands.c().size(), shifts.c);
  device.b = upload(host.b.as<float>(), operands.b().size(), shifts.b);
  if (host.scale != nullptr) device.scale = upload(host.scale, rows, 1);
  if (host.bias != nullptr) device.bias = upload(host.bias, rows, 3);
  if (host.residual.data == host.c.data) {
    device.residual.data = device.c.data;
  } else if (host.residual.data != nullptr) {
    device.residual =
        upload(host.residual.as<float>(), operands.residual().size(), shifts.residual);
  }
  const PreparedValues values = operands.values_for(kernel);
  if (values.stream() != nullptr) device.values = &values;
  kernel.launch(device);
  context.synchronize();
  buffers.front().download(std::as_writable_bytes(std::span(operands.c())),
                           index(shifts.c) * sizeof(float));
  return operands.c();
}

}  // namespace spjit::testing_support
