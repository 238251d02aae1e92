#include "kernels/host/csr/csr_family.hpp"

#include <limits>
#include <utility>

#include "kernels/built_kernel.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"

namespace spjit {
namespace {

class CsrMultiplier final : public Multiplier {
 public:
  CsrMultiplier(HostThreads threads, CsrImage read, const Cancellation& /*cancel*/)
      : Multiplier(std::move(threads)),
        read_(std::move(read)),
        parts_(split_rows(read_.view(), this->threads().count())) {}

  void multiply(const Product& product) const override {
    const CsrView matrix = read_.view(product.values);
    threads().run_parts(parts_, product.serial, [&](const RowRange& rows) {
      for_each_panel(product, read_,
                     [&](const Product& part) { run_csr(matrix, read_.header.isa, rows, part); });
    });
  }

  /// Fewer columns at once are slower: a row's entries are gone through for each group.
  [[nodiscard]] ColumnGroups column_groups(bool in_place) const noexcept override {
    if (!in_place) return Multiplier::column_groups(in_place);
    return {std::numeric_limits<std::int64_t>::max() / 2};
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override {
    return std::make_shared<const CsrValues>(kernel, values);
  }

 private:
  CsrImage read_;
  std::vector<RowRange> parts_;
};

}  // namespace

/// A B that is no f32 is copied, all of it.
Refusal CsrFamily::refusal(const FamilyRequest& request) const {
  if (request.problem.numerics.b == DataType::f32) return Refusal::none();
  return unread_refusal(*request.problem.a);
}

BuiltKernel CsrFamily::build(const BuildRequest& request) const {
  return build_csr(request, *this);
}

LoadedKernel CsrFamily::open(const HostObject& object, const Cancellation& cancel) const {
  return open_csr<CsrMultiplier>(object, read_csr_image(object.image, cancel), cancel);
}

}  // namespace spjit
