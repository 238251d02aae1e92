#include "kernels/host/reference/reference_family.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/batch_item.hpp"
#include "kernels/host/layer/activation.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/operands/placement.hpp"

namespace spjit {
namespace {

void add_scaled_row_fused(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

// The same loop where std::fma is one instruction, not a call: ten times as fast, the same bits.
__attribute__((target("avx2,fma"))) void add_scaled_row_fma3(float value, const float* b, float* c,
                                                             std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

void add_scaled_row_separate(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    float product = value * b[j];
    // Without this, -ffp-contract=fast and -march=native would make one FMA of product and sum.
    asm("" : "+x"(product));
    c[j] += product;
  }
}

/// Row by row: +0, then the entries in their order, as KernelPlan states it for every kernel, then
/// the epilogue.
class ReferenceExecutable final : public Executable {
 public:
  ReferenceExecutable(HostObject object, CsrImage read)
      : object_(std::move(object)),
        read_(std::move(read)),
        add_scaled_row_(add_scaled_row_of(arithmetic_of(read_.header.isa))) {}

  [[nodiscard]] const HostImage* image() const noexcept override { return &object_.image; }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::span<const float> values) const override {
    return std::make_shared<const CsrValues>(id(), values);
  }

  void run(const Arguments& arguments) const override {
    if (arguments.n == 0) return;
    for (std::int64_t item = 0; item < arguments.batch; ++item) {
      run_one(item_of(arguments, item));
    }
  }

 private:
  void run_one(const Arguments& arguments) const {
    const CsrView a =
        read_.view(arguments.values == nullptr ? nullptr : arguments.values->stream());
    const std::int64_t width = std::max<std::int64_t>(read_.panel_columns, 1);
    const std::int64_t n = arguments.n;
    Convolution convolution;
    PlacementOfB b{{*arguments.b.layout, arguments.b.ld, {a.cols, n, width}}};
    if (read_.header.convolution) {
      convolution = *read_.header.convolution;
      convolution.height = arguments.height;
      convolution.width = arguments.width;
      b = {{*arguments.b.layout, arguments.b.ld, {}}, &convolution};
    }
    const Placement c{*arguments.c.layout, arguments.c.ld, {a.rows, n, width}};
    const Placement residual{c.layout, arguments.residual.ld, c.panels};
    const auto* const from = arguments.b.as<float>();
    auto* const to = arguments.c.as<float>();
    std::vector<float> sums(to_size(n));
    std::vector<float> row_of_b(to_size(n));
    for (std::int64_t row = 0; row < a.rows; ++row) {
      std::ranges::fill(sums, 0.0F);
      for (std::int64_t i = a.row_ptrs[to_size(row)]; i < a.row_ptrs[to_size(row) + 1]; ++i) {
        const std::int64_t column = a.col_idxs[to_size(i)];
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t offset = b.offset(column, j);
          row_of_b[to_size(j)] = offset < 0 ? 0 : from[offset];
        }
        add_scaled_row_(a.values[to_size(i)], row_of_b.data(), sums.data(), n);
      }
      finish_row(arguments, row, residual, sums);
      for (std::int64_t j = 0; j < n; ++j) to[c.offset(row, j)] = sums[to_size(j)];
      if (c.layout != Layout::panel_major) continue;
      for (std::int64_t j = n; j % width != 0; ++j) to[c.offset(row, j)] = 0;
    }
  }

  void finish_row(const Arguments& arguments, std::int64_t row, const Placement& residual,
                  std::span<float> sums) const {
    const Epilogue& epilogue = read_.header.epilogue;
    for (std::size_t j = 0; j < sums.size(); ++j) {
      float& sum = sums[j];
      if (epilogue.scale) sum *= arguments.scale[row];
      if (epilogue.bias) sum += arguments.bias[row];
      if (epilogue.residual) {
        sum += arguments.residual.as<float>()[residual.offset(row, static_cast<std::int64_t>(j))];
      }
    }
    activate(sums, epilogue.activation, parameters_of(epilogue), read_.header.isa);
  }

  HostObject object_;
  CsrImage read_;
  AddScaledRow add_scaled_row_;
};

}  // namespace

AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept {
  if (arithmetic == Arithmetic::separate) return add_scaled_row_separate;
  const bool fma3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return fma3 ? add_scaled_row_fma3 : add_scaled_row_fused;
}

Arithmetic arithmetic_of(HostIsa isa) noexcept {
  return isa == HostIsa::generic ? Arithmetic::separate : Arithmetic::fused;
}

BuiltKernel ReferenceFamily::build(const BuildRequest& request) const {
  return build_csr(request, *this);
}

LoadedKernel ReferenceFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  KernelInfo info = info_of(read.header, object);
  info.panel_columns = read.panel_columns;
  return {std::move(info), std::make_shared<const ReferenceExecutable>(object, std::move(read))};
}

}  // namespace spjit
