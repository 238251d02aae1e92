#include "kernels/reference/reference_family.hpp"

#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/csr_image.hpp"
#include "plan/evaluate.hpp"

namespace spjit {
namespace {

class ReferenceExecutable final : public HostExecutable {
 public:
  ReferenceExecutable(HostObject object, CsrImage read)
      : HostExecutable(std::move(object)),
        read_(std::move(read)),
        add_scaled_row_(add_scaled_row_of(arithmetic_of(read_.header.isa))) {}

  void run(const Arguments& arguments) const override {
    for_each_panel(arguments, read_, [&](const Arguments& part) { multiply(part); });
  }

 private:
  /// Row by row: +0, then the entries in their order, as KernelPlan states it for every kernel.
  void multiply(const Arguments& arguments) const {
    const CsrView a = read_.view();
    for (std::int64_t row = 0; row < a.rows; ++row) {
      float* c = arguments.c + row * arguments.ldc;
      std::fill_n(c, arguments.n, 0.0F);
      for (std::int64_t i = a.row_ptrs[to_size(row)]; i < a.row_ptrs[to_size(row) + 1]; ++i) {
        const float* b = arguments.b + a.col_idxs[to_size(i)] * arguments.ldb;
        add_scaled_row_(a.values[to_size(i)], b, c, arguments.n);
      }
    }
  }

  CsrImage read_;
  AddScaledRow add_scaled_row_;
};

}  // namespace

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
