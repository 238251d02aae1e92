// Kernels and runs of the C interface.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "artifact/kernel_folder.hpp"
#include "artifact/kernel_json.hpp"
#include "bindings/c/convert.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handles.hpp"
#include "kernels/kernel_operation.hpp"

namespace spjit::c {
namespace {

/// Throws InvalidArgument as Kernel::run().
Arguments arguments_of(const KernelInfo& info, const spjit_arguments* arguments) {
  const spjit_arguments given =
      checked_struct(arguments, "spjit_arguments", offsetof(spjit_arguments, height));
  const bool says_n = info.runtime_n && !rules_of(info).has_images();
  constexpr auto k_most_bytes = std::numeric_limits<std::int64_t>::max();
  return {.b = {given.b,
                info.numerics.b,
                {.ld = given.ldb,
                 .distance = given.b_distance,
                 .layout = layout_of(given.b_layout, "b_layout")}},
          .c = {given.c,
                info.numerics.c,
                {.ld = given.ldc,
                 .distance = given.c_distance,
                 .layout = layout_of(given.c_layout, "c_layout")}},
          .n = given.n == 0 && !says_n ? Arguments::k_as_compiled : given.n,
          .height = given.height,
          .width = given.width,
          .scale = given.scale,
          .bias = given.bias,
          .residual = {given.residual,
                       info.numerics.c,
                       {.ld = given.ldr, .distance = given.residual_distance}},
          .b_scale = given.b_scale,
          .b_zero_point = given.b_zero_point,
          .c_scale = given.c_scale,
          .c_zero_point = given.c_zero_point,
          .values = given.values == nullptr ? nullptr : &given.values->values,
          .batch = given.batch == 0 ? 1 : given.batch,
          .workspace = given.workspace,
          .workspace_bytes =
              static_cast<std::int64_t>(std::min<std::size_t>(given.workspace_bytes, k_most_bytes)),
          .stream = given.stream};
}

}  // namespace
}  // namespace spjit::c

using namespace spjit::c;

int spjit_kernel_save(const spjit_kernel* kernel, const char* folder) {
  return guarded([&] {
    require(kernel, "kernel");
    require_path(folder, "folder");
    spjit::save_kernel(kernel->kernel, folder);
  });
}

int spjit_kernel_load(const char* folder, const spjit_load_options* options,
                      spjit_kernel** kernel) {
  return guarded([&] {
    spjit_kernel*& result = result_of(kernel, "kernel");
    require_path(folder, "folder");
    const auto given = optional_struct(options, "spjit_load_options");
    result = new spjit_kernel(spjit::load_kernel(
        {.path = folder,
         .any_owner = checked_flag(given.any_owner, "any_owner"),
         .threads = checked_threads(given.threads),
         .parallel_for = parallel_for_of(given.parallel_for, given.parallel_for_user)}));
  });
}

void spjit_kernel_destroy(spjit_kernel* kernel) { delete kernel; }

int64_t spjit_kernel_rows(const spjit_kernel* kernel) {
  return kernel == nullptr ? -1 : kernel->kernel.rows();
}

int64_t spjit_kernel_cols(const spjit_kernel* kernel) {
  return kernel == nullptr ? -1 : kernel->kernel.cols();
}

int64_t spjit_kernel_n(const spjit_kernel* kernel) {
  return kernel == nullptr ? -1 : kernel->kernel.n();
}

int spjit_kernel_info(const spjit_kernel* kernel, const char** json) {
  return guarded([&] {
    const char*& result = result_of(json, "json");
    require(kernel, "kernel");
    std::call_once(kernel->described, [&] {
      // A path may be no UTF-8.
      kernel->info = spjit::info_json(kernel->kernel.info())
                         .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    });
    result = kernel->info.c_str();
  });
}

int spjit_kernel_prepare_values(const spjit_kernel* kernel, const float* values, int64_t count,
                                spjit_values** prepared) {
  return guarded([&] {
    spjit_values*& result = result_of(prepared, "prepared");
    require(kernel, "kernel");
    if (count != 0) require(values, "values");
    const std::int64_t nnz = kernel->kernel.info().nnz;
    if (count != nnz) {
      throw spjit::InvalidArgument(
          fmt::format("{} values; expected {}, one of each entry of A in CSR order", count, nnz));
    }
    result = new spjit_values{
        kernel->kernel.prepare_values(std::span(values, static_cast<std::size_t>(count)))};
  });
}

int spjit_kernel_prepare_values_of(const spjit_kernel* kernel, const spjit_matrix* matrix,
                                   spjit_values** prepared) {
  return guarded([&] {
    spjit_values*& result = result_of(prepared, "prepared");
    require(kernel, "kernel");
    require(matrix, "matrix");
    result = new spjit_values{kernel->kernel.prepare_values(*matrix->matrix)};
  });
}

void spjit_values_destroy(spjit_values* values) { delete values; }

int spjit_kernel_run(const spjit_kernel* kernel, const spjit_arguments* arguments) {
  return guarded([&] {
    require(kernel, "kernel");
    kernel->kernel.run(arguments_of(kernel->kernel.info(), arguments));
  });
}

int spjit_kernel_workspace_bytes(const spjit_kernel* kernel, const spjit_arguments* arguments,
                                 size_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    *bytes = 0;
    require(kernel, "kernel");
    *bytes = static_cast<std::size_t>(
        kernel->kernel.workspace_bytes(arguments_of(kernel->kernel.info(), arguments)));
  });
}

int spjit_kernel_to_device(const spjit_kernel* kernel, int32_t ordinal, spjit_kernel** loaded) {
  return guarded([&] {
    spjit_kernel*& result = result_of(loaded, "loaded");
    require(kernel, "kernel");
    result = new spjit_kernel(kernel->kernel.load(ordinal));
  });
}

int spjit_kernel_launch(const spjit_kernel* kernel, const spjit_arguments* arguments) {
  return guarded([&] {
    require(kernel, "kernel");
    kernel->kernel.launch(arguments_of(kernel->kernel.info(), arguments));
  });
}
