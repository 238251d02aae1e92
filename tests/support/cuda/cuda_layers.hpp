#pragma once

/// @file
/// Layers (an epilogue, layouts, a batch) on the emulated driver, beside the host's family
/// `reference`.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_patches.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/cuda/cuda_artifacts.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"

namespace spjit::testing_support {

/// A kernel to compile, and the sizes of a run.
struct LayerCase {
  CsrMatrix matrix;
  CudaKernelSpec spec;
  Arguments sizes = {};
  bool in_place = false;  ///< the residual is C
  ReorderAlgorithm reorder = ReorderAlgorithm::similarity;
};

/// Of a case that runs as it was compiled.
[[nodiscard]] inline LayerCase layer_case(CsrMatrix matrix, const CudaKernelSpec& spec) {
  LayerCase item{std::move(matrix), spec};
  item.sizes.n = spec.n;
  item.sizes.b.ld = spec.ldb;
  item.sizes.c.ld = spec.ldc;
  item.sizes.residual.ld = spec.ldc;
  return item;
}

/// Of B and of C.
inline constexpr std::array k_all_layouts = {
    std::pair{Layout::row_major, Layout::row_major},
    std::pair{Layout::row_major, Layout::tokens_major},
    std::pair{Layout::tokens_major, Layout::row_major},
    std::pair{Layout::tokens_major, Layout::tokens_major},
};

/// All that an epilogue can be: `bits` say which operands it has.
[[nodiscard]] inline Epilogue epilogue_of(unsigned bits, Activation activation) {
  Epilogue epilogue;
  epilogue.scale = (bits & 1U) != 0;
  epilogue.bias = (bits & 2U) != 0;
  epilogue.residual = (bits & 4U) != 0;
  epilogue.activation = activation;
  if (activation == Activation::clamp) {
    epilogue.low = -0.25F;
    epilogue.high = 0.75F;
  }
  set_line(epilogue);
  return epilogue;
}

/// A case whose rows or tokens have gaps between them.
[[nodiscard]] inline LayerCase in_layouts(LayerCase item, const std::pair<Layout, Layout>& layouts,
                                          std::int64_t gap = 1) {
  CudaLayer& layer = item.spec.layer;
  std::tie(layer.b_layout, layer.c_layout) = layouts;
  item.spec.ldb = (layer.has_tokens_of_b() ? item.matrix.cols : item.sizes.n) + gap;
  item.spec.ldc = (layer.has_tokens_of_c() ? item.matrix.rows : item.sizes.n) + 2 * gap;
  item.sizes.b.ld = item.spec.ldb;
  item.sizes.c.ld = item.spec.ldc;
  item.sizes.residual.ld = item.spec.ldc + (item.in_place ? 0 : gap);
  return item;
}

/// The instruction set of this CPU whose results are those of a GPU but for SiLU: AVX-512, or but
/// for all smooth activations AVX2.
[[nodiscard]] inline HostIsa like_a_gpu() {
  return Target(HostIsa::avx512).runs_here() ? HostIsa::avx512 : HostIsa::avx2;
}

/// Whether two results of a layer are the same, or where this CPU has another activation as close
/// as their error bounds say.
[[nodiscard]] inline bool same_layer(std::span<const float> left, std::span<const float> right,
                                     Activation activation) {
  const bool is_gelu = activation == Activation::gelu_erf || activation == Activation::gelu_tanh;
  const bool is_same = !is_gelu || like_a_gpu() == HostIsa::avx512;
  if (is_same && activation != Activation::silu) return same_bits(left, right);
  return std::ranges::equal(left, right, [is_same](float a, float b) {
    return same_value(a, b) || std::abs(a - b) <= (is_same ? 2e-6F * std::abs(b) + 1e-36F
                                                           : 2e-6F * std::abs(b) + 5e-9F);
  });
}

/// Floats from the first to the last element of so many features of n tokens.
[[nodiscard]] inline std::int64_t extent_of(Layout layout, std::int64_t features, std::int64_t n,
                                            std::int64_t ld) {
  return layout == Layout::tokens_major ? extent_of(n, features, features == 0 ? 0 : ld)
                                        : extent_of(features, n, ld);
}

/// Floats that a batch of operands takes.
[[nodiscard]] inline std::int64_t batch_floats(std::int64_t extent, const Arguments& sizes,
                                               std::int64_t distance) {
  return extent + std::max<std::int64_t>(sizes.batch - 1, 0) * distance;
}

/// Memory for a run of a case, on the host. Some values are zeros, infinite, NaN and denormal.
class LayerOperands {
 public:
  explicit LayerOperands(const LayerCase& item, bool has_special_values = true) : item_(item) {
    const Arguments& sizes = item.sizes;
    const std::int64_t rows = item.matrix.rows;
    const Epilogue& epilogue = item.spec.layer.epilogue;
    const Layout layout = item.spec.layer.c_layout;
    const CudaLayer& of = item.spec.layer;
    b_ = dense_values(batch_floats(extent_of(of.b_layout, b_rows(of, item.matrix.cols),
                                             b_columns(of, sizes.n), sizes.b.ld),
                                   sizes, sizes.b.distance),
                      3);
    c_.assign(
        index(batch_floats(extent_of(layout, rows, sizes.n, sizes.c.ld), sizes, sizes.c.distance)),
        k_untouched);
    if (epilogue.scale) scale_ = dense_values(rows, 4);
    if (epilogue.bias) bias_ = dense_values(rows, 5);
    if (epilogue.residual) {
      residual_ = dense_values(batch_floats(extent_of(layout, rows, sizes.n, sizes.residual.ld),
                                            sizes, sizes.residual.distance),
                               6);
      if (item.in_place) c_ = residual_;
    }
    if (has_special_values) {
      for (std::vector<float>* values : {&b_, &scale_, &bias_, &residual_}) plant(*values);
      if (item.in_place) plant(c_);
    }
  }

  [[nodiscard]] Arguments arguments() {
    Arguments arguments = item_.sizes;
    arguments.b = b_.data();
    arguments.c = c_.data();
    if (item_.spec.layer.epilogue.scale) arguments.scale = scale_.data();
    if (item_.spec.layer.epilogue.bias) arguments.bias = bias_.data();
    if (item_.spec.layer.epilogue.residual) {
      arguments.residual = item_.in_place ? c_.data() : residual_.data();
    }
    return arguments;
  }

  /// A's, where the kernel takes them at run time.
  [[nodiscard]] PreparedValues values_for(const Kernel& kernel) const {
    if (!item_.spec.layer.runtime_values) return {};
    return kernel.prepare_values(item_.matrix.values);
  }

  [[nodiscard]] std::vector<float>& b() noexcept { return b_; }
  [[nodiscard]] std::vector<float>& c() noexcept { return c_; }
  [[nodiscard]] std::vector<float>& bias() noexcept { return bias_; }
  [[nodiscard]] std::vector<float>& residual() noexcept { return residual_; }

 private:
  /// Each 13th value, from the fifth on.
  static void plant(std::vector<float>& values) {
    using Limits = std::numeric_limits<float>;
    const std::vector<float> special = {-0.0F,
                                        0.0F,
                                        Limits::infinity(),
                                        -Limits::infinity(),
                                        Limits::quiet_NaN(),
                                        Limits::denorm_min(),
                                        -100.0F,
                                        Limits::max()};
    for (std::size_t i = 4; i < values.size(); i += 13) values[i] = special[i / 13 % 8];
  }

  LayerCase item_;
  std::vector<float> b_;
  std::vector<float> c_;
  std::vector<float> scale_;
  std::vector<float> bias_;
  std::vector<float> residual_;
};

/// C after a run of the host's `reference`.
[[nodiscard]] inline std::vector<float> reference_layer(const LayerCase& item,
                                                        LayerOperands operands) {
  Problem problem;
  problem.a = item.matrix;
  problem.n = Extent::at_run_time(item.spec.n);
  problem.epilogue = item.spec.layer.epilogue;
  problem.convolution = item.spec.layer.convolution;
  if (problem.convolution) problem.operation = Operation::conv2d;
  problem.b.layout = item.spec.layer.b_layout;
  problem.c.layout = item.spec.layer.c_layout;
  kernel_of(make_csr_artifact(problem, "reference", like_a_gpu())).run(operands.arguments());
  return operands.c();
}

/// Values at run time are all others in the plan: code must have none of them.
[[nodiscard]] inline KernelPlan plan_of(const LayerCase& item) {
  CsrMatrix matrix = item.matrix;
  if (item.spec.layer.runtime_values) std::ranges::fill(matrix.values, k_untouched);
  return build_plan(matrix, group_rows(matrix, item.spec.tile.m1, item.reorder),
                    std::max<std::int64_t>(matrix.cols, 1));
}

/// A device of the emulated driver.
struct EmulatedDevice {
  int arch = 90;
  int ordinal = 0;
};

/// The kernel of a case made of PTX or a cubin, in an emulated GPU (SPJIT_CUDA_DRIVER must name
/// it).
[[nodiscard]] inline Kernel layer_kernel(const LayerCase& item, const std::string& image,
                                         const EmulatedDevice& device = {}) {
  const KernelPlan plan = plan_of(item);
  const UnrolledProgram program = make_program(plan, item.spec, device.arch);
  Artifact artifact = ptx_artifact(image, record_of(program, item.spec.tile).dump());
  if (item.spec.layer.runtime_values) add_positions(artifact, value_positions(plan));
  return Kernel::from_artifact(std::move(artifact)).load(device.ordinal);
}

[[nodiscard]] inline Kernel layer_kernel(const LayerCase& item) {
  return layer_kernel(item, join_texts(emit_ptx(plan_of(item), item.spec, 90)));
}

/// C after Kernel::run().
[[nodiscard]] inline std::vector<float> run_layer(const Kernel& kernel, LayerOperands operands) {
  const PreparedValues values = operands.values_for(kernel);
  Arguments arguments = operands.arguments();
  if (values.stream() != nullptr) arguments.values = &values;
  kernel.run(arguments);
  return operands.c();
}

/// C after Kernel::launch(), with all operands in the GPU.
[[nodiscard]] inline std::vector<float> launch_layer(const Kernel& kernel, LayerOperands operands) {
  const CudaContext context(local_cuda_driver(), kernel.device());
  std::vector<DeviceBuffer> buffers;
  const Arguments host = operands.arguments();
  Arguments device = host;
  const auto upload = [&](const float* from, std::size_t count) -> float* {
    buffers.emplace_back(context, std::max<std::size_t>(count, 1) * sizeof(float));
    buffers.back().upload(std::as_bytes(std::span(from, count)));
    return static_cast<float*>(buffers.back().pointer());
  };
  const std::size_t rows = index(kernel.rows());
  device.c = upload(host.c.as<float>(), operands.c().size());
  device.b = upload(host.b.as<float>(), operands.b().size());
  if (host.scale != nullptr) device.scale = upload(host.scale, rows);
  if (host.bias != nullptr) device.bias = upload(host.bias, rows);
  if (host.residual.data == host.c.data) {
    device.residual.data = device.c.data;
  } else if (host.residual.data != nullptr) {
    device.residual = upload(host.residual.as<float>(), operands.residual().size());
  }
  const PreparedValues values = operands.values_for(kernel);
  if (values.stream() != nullptr) device.values = &values;
  kernel.launch(device);
  context.synchronize();
  buffers.front().download(std::as_writable_bytes(std::span(operands.c())));
  return operands.c();
}

}  // namespace spjit::testing_support
