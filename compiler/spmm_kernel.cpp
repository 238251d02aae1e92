#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/host_cpu.hpp"
#include "compiler/identifiers.hpp"
#include "kernels/spmm_kernel_impl.hpp"
#include "kernels/unrolled_host/packing.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats whose bytes can be counted in 63 bits.
constexpr std::int64_t k_most_floats =
    std::numeric_limits<std::int64_t>::max() / std::int64_t{sizeof(float)};

void check_ld(const char* name, std::int64_t ld, std::int64_t rows, std::int64_t n) {
  if (ld < n) {
    throw InvalidArgument(
        fmt::format("{} is {}; expected at least n = {} floats between rows", name, ld, n));
  }
  // Offsets of rows in bytes are 64-bit: beyond, they would wrap around.
  if (rows > 0 && ld > k_most_floats / rows) {
    throw InvalidArgument(fmt::format("{} is {}; expected at most {} floats between {} rows", name,
                                      ld, k_most_floats / rows, rows));
  }
}

PanelLayout layout_of(const SpmmKernel& kernel, std::int64_t rows) {
  if (rows < 0 || rows > k_max_dimension) {
    throw InvalidArgument(fmt::format("rows is {}; expected 0 to {}", rows, k_max_dimension));
  }
  return {rows, kernel.n(), kernel.info().panel_columns};
}

void check_panels(const char* name, const PanelLayout& layout) {
  if (layout.size() > k_most_floats) {
    throw InvalidArgument(
        fmt::format("{} has {} floats; expected at most {}", name, layout.size(), k_most_floats));
  }
}

void check_pointer(const char* name, const float* pointer, std::int64_t rows, std::int64_t n) {
  if (pointer == nullptr && rows > 0) {
    throw InvalidArgument(
        fmt::format("{} is null; expected an array of [{} x {}] floats", name, rows, n));
  }
}

void check_name(const std::string& name) {
  if (is_function_name(name)) return;
  throw InvalidArgument(
      fmt::format("\"{}\" cannot name a function; expected letters, digits and '_', and no keyword "
                  "or reserved or standard name of C++",
                  name));
}

}  // namespace

const KernelInfo& SpmmKernel::info() const noexcept { return impl_->info; }

const std::string& SpmmKernel::record() const noexcept { return impl_->record_json; }

void SpmmKernel::run(const float* b, float* c) const { run(b, n(), c, n()); }

void SpmmKernel::run(const float* b, std::int64_t ldb, float* c, std::int64_t ldc) const {
  check_ld("ldb", ldb, cols(), n());
  check_ld("ldc", ldc, rows(), n());
  check_pointer("b", b, cols(), n());
  check_pointer("c", c, rows(), n());
  impl_->run({b, ldb, c, ldc});
}

void SpmmKernel::run_panels(const float* b_panels, float* c_panels) const {
  check_pointer("b_panels", b_panels, cols(), n());
  check_pointer("c_panels", c_panels, rows(), n());
  check_panels("b_panels", layout_of(*this, cols()));
  check_panels("c_panels", layout_of(*this, rows()));
  impl_->run({b_panels, 0, c_panels, 0});
}

std::int64_t SpmmKernel::panel_floats(std::int64_t rows) const {
  return layout_of(*this, rows).size();
}

std::int64_t SpmmKernel::panel_stride(std::int64_t rows) const {
  return layout_of(*this, rows).stride();
}

void SpmmKernel::to_panels(const float* dense, std::int64_t ld, std::int64_t rows,
                           float* panels) const {
  const PanelLayout layout = layout_of(*this, rows);
  check_ld("ld", ld, rows, n());
  check_pointer("dense", dense, rows, n());
  check_pointer("panels", panels, rows, n());
  const std::array all = {RowRange{0, rows}};
  pack_panels(layout, {0, layout.panels()}, {dense, ld}, all, panels);
}

void SpmmKernel::from_panels(const float* panels, std::int64_t rows, float* dense,
                             std::int64_t ld) const {
  const PanelLayout layout = layout_of(*this, rows);
  check_ld("ld", ld, rows, n());
  check_pointer("panels", panels, rows, n());
  check_pointer("dense", dense, rows, n());
  for (std::int64_t panel = 0; panel < layout.panels(); ++panel) {
    const std::int64_t first = panel * layout.width;
    const auto columns = static_cast<std::size_t>(std::min(layout.width, layout.n - first));
    const float* from = panels + panel * layout.stride();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(dense + row * ld + first, from + row * layout.width, columns * sizeof(float));
    }
  }
}

std::vector<std::byte> SpmmKernel::object(const std::string& name) const {
  check_name(name);
  return write_object(impl_->image, name);
}

std::string SpmmKernel::aot_header(const std::string& name) const {
  check_name(name);
  return fmt::format(R"(#pragma once

// {1} kernel C = A * B with A [{2} x {3}], {4} nonzeros, B [{3} x {5}]; made by spjit.
// Link {0}.o and libspjit.

#include <spjit/kernel.hpp>

extern "C" {{
extern const unsigned char spjit_{0}_text[];
extern const unsigned char spjit_{0}_weights[];
extern const unsigned char spjit_{0}_program[{6}];
}}

/// C [{2} x {5}] = A * B [{3} x {5}]; see spjit::SpmmKernel.
[[nodiscard]] inline spjit::SpmmKernel {0}(int threads = 1) {{
  return spjit::SpmmKernel::link({{spjit_{0}_text, {7}, spjit_{0}_weights, {8},
                                  spjit_{0}_program, {6}}},
                                 threads);
}}
)",
                     name, info().target.name(), rows(), cols(), info().nnz, n(),
                     impl_->image.program.size(), impl_->image.text.size(),
                     impl_->image.weights.size());
}

SpmmKernel SpmmKernel::link(const LinkedObject& object, int threads) {
  if (threads < 0 || threads > k_most_threads) {
    throw InvalidArgument(
        fmt::format("threads is {}; expected 0 (all) to {}", threads, k_most_threads));
  }
  const auto part = [](const void* data, std::size_t bytes) {
    if (data == nullptr && bytes > 0) {
      throw InvalidArgument(
          fmt::format("a part of a linked object is null; expected {} bytes", bytes));
    }
    return std::span(static_cast<const std::byte*>(data), bytes);
  };
  const int workers = threads == 0 ? usable_cpus() : threads;
  auto pool = workers > 1 ? std::make_shared<ThreadPool>(workers) : nullptr;
  return SpmmKernel(
      Impl::link({part(object.text, object.text_bytes), part(object.weights, object.weights_bytes),
                  part(object.program, object.program_bytes)},
                 std::move(pool)));
}

}  // namespace spjit
