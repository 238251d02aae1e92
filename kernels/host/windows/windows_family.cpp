#include "kernels/host/windows/windows_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/float_buffer.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/windows/window_steps.hpp"
#include "kernels/host/windows/windows_kernel.hpp"

namespace spjit {
namespace {

/// So many are on the stack of a run: borrowing them takes as long as a hundred entries do.
constexpr std::int64_t k_own_floats = 1024;

/// A's values of a run: in steps, and as the loop over the entries takes them.
struct StepValues final : PreparedValues::Stream {
  using Stream::Stream;
  WindowValues steps;
  std::vector<float> entries;
};

/// Half the bytes of A, where they have room.
WindowSlots slots_of(const HostProgramHeader& header) {
  const bool has_nibbles = header.numerics.a == DataType::i4 && header.group_columns > 0;
  return has_nibbles ? WindowSlots::packed : WindowSlots::apart;
}

class WindowsMultiplier final : public Multiplier {
 public:
  WindowsMultiplier(HostThreads threads, CsrImage read, const Cancellation& cancel)
      : Multiplier(std::move(threads)),
        read_(std::move(read)),
        matrix_(read_.view(), read_.header.isa, held_type_of(stored_type(read_.header.numerics)),
                cancel, slots_of(read_.header)),
        parts_(matrix_.split(this->threads().count(),
                             std::min(read_.header.n, k_most_window_columns))) {
    read_.drop_widened();
  }

  void multiply(const Product& product) const override {
    if (product.n > k_most_window_columns) {
      for_each_panel(product, read_, [&](const Product& part) { run_in_passes(part); });
      return;
    }
    if (product.layout == Layout::row_major) {
      run_row_major(product);
      return;
    }
    // So few columns are one panel. What is past them is zero, as B's is.
    const std::int64_t n = product.n;
    run_row_major({.b = product.b,
                   .ldb = k_csr_panel_columns,
                   .c = product.c,
                   .ldc = k_csr_panel_columns,
                   .n = n,
                   .serial = product.serial,
                   .values = product.values,
                   .workspace = product.workspace});
    for (std::int64_t row = 0; row < read_.header.rows; ++row) {
      std::fill_n(product.c + row * k_csr_panel_columns + n, k_csr_panel_columns - n, 0.0F);
    }
  }

  [[nodiscard]] std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const override {
    const auto prepared = std::make_shared<StepValues>(kernel);
    prepared->steps = matrix_.arrange(values);
    prepared->entries.assign(values.begin(), values.end());
    return prepared;
  }

  [[nodiscard]] WorkspaceNeed workspace_need(const Product& product) const override {
    const std::int64_t columns = std::min(product.n, k_most_window_columns);
    const std::int64_t floats = matrix_.column_floats() * columns;
    return floats <= k_own_floats ? WorkspaceNeed{} : WorkspaceNeed{1, floats};
  }

 private:
  /// Any number of columns, which read A once for each few of them.
  void run_in_passes(const Product& product) const {
    for (std::int64_t first = 0; first < product.n; first += k_most_window_columns) {
      run_row_major(product.columns(first, std::min(product.n - first, k_most_window_columns)));
    }
  }

  void run_row_major(const Product& product) const {
    if (matrix_.takes_in_place(product)) {
      run(product, {product.b, product.c, product.ldc, product.n});
      return;
    }
    const std::int64_t floats = matrix_.column_floats() * product.n;
    if (floats <= k_own_floats) {
      alignas(FloatBuffer::k_alignment) std::array<float, k_own_floats> own;
      run_columns(product, own.data());
      return;
    }
    const WorkspacePool::Loan workspace(threads().workspaces(), {floats, floats},
                                        product.workspace);
    run_columns(product, workspace.data());
  }

  /// Copies B's columns to `columns` and computes C.
  void run_columns(const Product& product, float* columns) const {
    matrix_.copy_columns(product, columns);
    run(product, {columns, product.c, product.ldc, product.n});
  }

  void run(const Product& product, const WindowOperands& operands) const {
    const auto* of_run = dynamic_cast<const StepValues*>(product.values);
    const WindowValues& values = of_run != nullptr ? of_run->steps : matrix_.values();
    if (matrix_.takes(operands, values)) {
      threads().run_parts(parts_, product.serial,
                          [&](const RowRange& pairs) { matrix_.run(pairs, operands, values); });
      return;
    }
    CsrView a = read_.view();
    a.values = of_run != nullptr ? of_run->entries : values_as_floats();
    run_csr(a, read_.header.isa, product);
  }

  /// Those of the kernel, made when a B first asks for them.
  [[nodiscard]] std::span<const float> values_as_floats() const {
    if (read_.stored_values.empty()) return read_.values;
    std::call_once(widens_, [&] { widened_ = read_.widen(); });
    return widened_;
  }

  CsrImage read_;
  WindowsMatrix matrix_;
  std::vector<RowRange> parts_;
  mutable std::once_flag widens_;
  mutable std::vector<float> widened_;
};

/// With scales of groups no other loop over A is as fast: it takes any n, a few columns at a time.
bool takes_columns(HostIsa isa, const Extent& n, bool has_groups) {
  if (has_groups) return has_windows(isa, 1);
  return has_windows(isa, n.value) && !n.runtime;
}

Refusal columns_refusal(HostIsa isa, const Extent& n, bool has_groups) {
  if (takes_columns(isa, n, has_groups)) return Refusal::none();
  if (n.runtime) return Refusal("it does not know a run-time n without scales of groups");
  return Refusal(fmt::format("it is for n of 1 to {}, avx512 and avx2; n is {} and the target {}",
                             k_most_window_columns, n.value, to_string(isa)));
}

}  // namespace

Refusal WindowsFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  const bool has_groups = request.problem.group_scales != nullptr;
  if (Refusal refusal = columns_refusal(isa, request.problem.n, has_groups)) return refusal;
  const std::int64_t cols = request.problem.a->cols;
  const std::int64_t most = window_shape(isa).most_cols();
  if (cols <= most) return Refusal::none();
  return Refusal(fmt::format("it is for up to {} columns of A, which has {}", most, cols));
}

double WindowsFamily::bytes_of_a(const FamilyRequest& request) const {
  const WindowShape shape = window_shape(request.options.target.isa());
  return as_double(window_bytes(view_of(*request.problem.a), shape, request.cancel));
}

BuiltKernel WindowsFamily::build(const BuildRequest& request) const {
  BuiltKernel built = build_csr(request, *this);
  const Problem& problem = request.what.problem;
  built.reason =
      fmt::format("heuristic: n is {}: a vector is {} rows of A, not the columns of B",
                  problem.n.value, window_shape(request.what.options.target.isa()).lanes);
  return built;
}

LoadedKernel WindowsFamily::open(const HostObject& object, const Cancellation& cancel) const {
  CsrImage read = read_csr_image(object.image, cancel);
  const HostProgramHeader& header = read.header;
  require_record(!header.runtime_n || header.group_columns > 0,
                 "a run-time n, which its family does not know");
  Extent n = header.n;
  n.runtime = header.runtime_n;
  require_record(takes_columns(header.isa, n, header.group_columns > 0), "columns of windows");
  require_record(header.cols <= window_shape(header.isa).most_cols(), "columns of A in windows");
  require_record(read.panel_columns == k_csr_panel_columns, "panel columns of windows");
  return open_csr<WindowsMultiplier>(object, std::move(read), cancel);
}

}  // namespace spjit
