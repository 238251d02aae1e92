#pragma once

/// @file
/// Emitted PTX run on the emulated driver, whose memory has bounds and knows what was written: a
/// program that reads or writes outside B and C, or reads what nothing wrote, throws DeviceError.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "plan/kernel_plan.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/cuda_driver.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/cuda/cuda_module.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// The value of C before a run, and past column n after it.
inline constexpr float k_untouched = -12345.0F;

/// A context of its own: one in which a kernel faulted gives errors until it is released.
[[nodiscard]] inline CudaContext emulated_context(int device = 0) {
  return {CudaDriver::load(SPJIT_EMULATED_CUDA), device};
}

/// One kernel of one matrix with the operands it is run on.
struct CudaCase {
  KernelPlan plan;
  CudaKernelSpec spec;
  std::vector<float> b;  ///< [cols x n], rows ldb apart, without what follows the last element
};

/// Floats from the first to the last element of `rows` rows.
[[nodiscard]] inline std::int64_t extent_of(std::int64_t rows, std::int64_t n, std::int64_t ld) {
  return rows == 0 ? 0 : (rows - 1) * ld + n;
}

[[nodiscard]] inline CudaCase make_cuda_case(const CsrMatrix& matrix, const CudaKernelSpec& spec,
                                             ReorderAlgorithm reorder) {
  KernelPlan plan = build_plan(matrix, group_rows(matrix, spec.tile.m1, reorder),
                               std::max<std::int64_t>(matrix.cols, 1));
  return {std::move(plan), spec, dense_values(extent_of(matrix.cols, spec.n, spec.ldb))};
}

/// The kernel of a program. Throws DeviceError, also for a program that is no PTX.
[[nodiscard]] inline CudaFunction load_ptx(const CudaContext& context, const std::string& ptx) {
  return CudaModule(context, std::as_bytes(std::span(ptx))).function(k_cuda_kernel_name);
}

/// The values of a case in a GPU, or none where they are in its code.
[[nodiscard]] inline PreparedValues values_of(const CudaContext& context, const CudaCase& item) {
  if (!item.spec.layer.runtime_values) return {};
  const std::vector<float> stream = values_in_order(item.plan);
  DeviceBuffer floats(context, stream.size() * sizeof(float));
  floats.upload(std::as_bytes(std::span(stream)));
  return PreparedValues(std::make_shared<const CudaValues>(0, std::move(floats)));
}

/// A launch of one product.
[[nodiscard]] inline CudaLaunchShape shape_of(const KernelPlan& plan, const CudaKernelSpec& spec) {
  const CudaGrid grid = cuda_grid(plan, spec);
  return {.grid = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1},
          .block = {static_cast<unsigned>(spec.tile.n1),
                    static_cast<unsigned>(spec.tile.tiles_a_block), 1},
          .dynamic_shared_bytes = static_cast<unsigned>(shared_bytes_of(spec.layer, spec.tile))};
}

/// The block of a launch with run-time threads; 0: the tile's own.
struct LaunchedBlock {
  std::int64_t n1 = 0;
  std::int64_t tiles = 1;
};

/// C as the kernel leaves it, padding included. Throws DeviceError.
[[nodiscard]] inline std::vector<float> run_kernel(const CudaFunction& function,
                                                   const CudaCase& item, LaunchedBlock block = {}) {
  const CudaContext& context = function.context();
  const CudaKernelSpec& spec = item.spec;
  std::vector<float> c(index(extent_of(item.plan.rows, spec.n, spec.ldc)), k_untouched);
  DeviceBuffer device_b(context, std::max<std::size_t>(item.b.size(), 1) * sizeof(float));
  DeviceBuffer device_c(context, c.size() * sizeof(float));
  device_b.upload(std::as_bytes(std::span(item.b)));
  device_c.upload(std::as_bytes(std::span(c)));
  const PreparedValues values = values_of(context, item);
  CudaParameters parameters({.b = {static_cast<const float*>(device_b.pointer()), {.ld = spec.ldb}},
                             .c = {static_cast<float*>(device_c.pointer()), {.ld = spec.ldc}},
                             .n = spec.n,
                             .values = &values});
  CudaKernelSpec launched = spec;
  if (block.n1 > 0) {
    launched.tile.n1 = block.n1;
    launched.tile.tiles_a_block = block.tiles;
  }
  function.launch(shape_of(item.plan, launched), nullptr, parameters.places());
  context.synchronize();
  device_c.download(std::as_writable_bytes(std::span(c)));
  return c;
}

[[nodiscard]] inline std::vector<float> run_ptx(const std::string& ptx, const CudaCase& item,
                                                LaunchedBlock block = {}) {
  const CudaContext context = emulated_context();
  return run_kernel(load_ptx(context, ptx), item, block);
}

/// The C that a run must leave: the evaluator's C, and the padding untouched.
[[nodiscard]] inline std::vector<float> expected_c(const CudaCase& item) {
  const CudaKernelSpec& spec = item.spec;
  std::vector<float> c(index(extent_of(item.plan.rows, spec.n, spec.ldc)), k_untouched);
  evaluate(item.plan, Arithmetic::fused, {item.b.data(), spec.ldb, c.data(), spec.ldc, spec.n});
  return c;
}

/// Whether a program gives the right C; one that faults does not. Throws DeviceError for one that
/// cannot even be loaded: a mutation that only breaks the syntax proves nothing.
[[nodiscard]] inline bool is_right(const std::string& ptx, const CudaCase& item) {
  const CudaContext context = emulated_context();
  const CudaFunction function = load_ptx(context, ptx);
  try {
    return same_bits(run_kernel(function, item), expected_c(item));
  } catch (const DeviceError&) {
    return false;
  }
}

[[nodiscard]] inline std::string join_texts(const std::vector<SourceUnit>& units) {
  std::string text;
  for (const SourceUnit& unit : units) text += unit.text + "\n";
  return text;
}

[[nodiscard]] inline std::string ptx_of(const CudaCase& item, int sm = 90) {
  return join_texts(emit_ptx(item.plan, item.spec, sm));
}

}  // namespace spjit::testing_support
