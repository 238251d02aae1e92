#include "kernels/reference/reference_family.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/csr_image.hpp"

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

class ReferenceExecutable final : public HostExecutable {
 public:
  ReferenceExecutable(HostObject object, CsrImage read)
      : HostExecutable(std::move(object), read.header, read.panel_columns),
        read_(std::move(read)),
        add_scaled_row_(add_scaled_row_of(arithmetic_of(read_.header.isa))) {}

  void multiply(const Product& product) const override {
    for_each_panel(product, read_, [&](const Product& part) { multiply_rows(part); });
  }

 private:
  /// Row by row: +0, then the entries in their order, as KernelPlan states it for every kernel.
  void multiply_rows(const Product& product) const {
    const CsrView a = read_.view();
    for (std::int64_t row = 0; row < a.rows; ++row) {
      float* c = product.c + row * product.ldc;
      std::fill_n(c, product.n, 0.0F);
      for (std::int64_t i = a.row_ptrs[to_size(row)]; i < a.row_ptrs[to_size(row) + 1]; ++i) {
        const float* b = product.b + a.col_idxs[to_size(i)] * product.ldb;
        add_scaled_row_(a.values[to_size(i)], b, c, product.n);
      }
    }
  }

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

std::string ReferenceFamily::leaves_to_others(const FamilyRequest& /*request*/) const {
  return "it is the slow one";
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
