#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"
#include "plan/convolution.hpp"
#include "plan/operation.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::int64_t kernel_taps(const Convolution& of) noexcept {
  return of.kernel_height * of.kernel_width;
}
std::int64_t output_pixels(const Convolution& of) noexcept {
  return of.output_height() * of.output_width();
}

class Conv2dRules final : public OperationRules {
 public:
  [[nodiscard]] Operation operation() const noexcept override { return Operation::conv2d; }
  [[nodiscard]] std::string_view name() const noexcept override { return "conv2d"; }
  [[nodiscard]] std::string_view noun() const noexcept override { return "a convolution"; }
  [[nodiscard]] ProblemFeature feature() const noexcept override {
    return ProblemFeature::convolution;
  }

  [[nodiscard]] bool gathers_b() const noexcept override { return true; }
  [[nodiscard]] bool takes_panels() const noexcept override { return false; }
  [[nodiscard]] bool has_images() const noexcept override { return true; }
  [[nodiscard]] std::string_view columns_text() const noexcept override {
    return "the pixels of a channel,";
  }

  [[nodiscard]] StoredSize stored_b(const OperationSizes& sizes) const noexcept override {
    return {sizes.convolution->channels, sizes.image.height * sizes.image.width};
  }
  [[nodiscard]] RowRanges stored_rows(const OperationSizes& sizes, RowRanges rows) const override {
    const std::int64_t taps = kernel_taps(*sizes.convolution);
    RowRanges channels;
    std::int64_t end = 0;
    for (const RowRange& range : rows.ranges()) {
      const std::int64_t begin = std::max(range.begin / taps, end);
      end = std::max(ceil_div(range.end, taps), end);
      if (begin < end) channels.add(begin, end);
    }
    return channels;
  }
  [[nodiscard]] std::string details(const OperationSizes& sizes) const override {
    return to_string(*sizes.convolution);
  }
  [[nodiscard]] OtherRun other_run(const OperationSizes& run) const override {
    Convolution other = *run.convolution;
    other.height += other.stride_height + 1;
    other.width += 2 * other.stride_width;
    return {.n = output_pixels(other), .convolution = other};
  }

  [[nodiscard]] std::int64_t columns_of_a(const Problem& problem) const override {
    const Convolution& of = *problem.convolution;
    check_convolution(of);
    return of.channels / of.groups * kernel_taps(of);
  }
  /// Also of a problem whose groups are one.
  void check(const Problem& problem) const override {
    if (!problem.convolution) {
      throw InvalidArgument("the operation is conv2d; expected Problem::convolution");
    }
    const Convolution& of = *problem.convolution;
    check_convolution(of);
    check_weights(of, problem.a->rows, problem.a->cols);
    if (problem.n.value != 0 && problem.n.value != output_pixels(of)) {
      throw InvalidArgument(
          fmt::format("n is {}; expected 0 or the {} x {} pixels of the convolution's output",
                      problem.n.value, of.output_height(), of.output_width()));
    }
    const bool has_panels = problem.panel_columns || problem.b.layout == Layout::panel_major ||
                            problem.c.layout == Layout::panel_major;
    if (has_panels) {
      throw InvalidArgument("a convolution has no panels; expected features or tokens as layouts");
    }
  }
  void set_n(Problem& problem) const noexcept override {
    problem.n.value = output_pixels(*problem.convolution);
  }
  /// With an n, one group, and only where it is no plain product.
  void simplify(Problem& problem, const Cancellation& cancel) const override {
    set_n(problem);
    Convolution& of = *problem.convolution;
    if (of.groups > 1) {
      problem.a = with_all_channels(*problem.a, of, cancel);
      of.groups = 1;
    }
    if (!is_pointwise(of)) return;
    problem.convolution.reset();
    problem.operation = Operation::spmm;
  }
  /// Of images of any size only the kernel counts.
  [[nodiscard]] bool is_same(const Problem& made, const Problem& wanted,
                             bool any_size) const override {
    Convolution of = *made.convolution;
    if (any_size) {
      of.height = wanted.convolution->height;
      of.width = wanted.convolution->width;
    }
    return of == *wanted.convolution;
  }
  void add_to_key(const Problem& problem, KeyBuilder& key) const override {
    spjit::add_to_key(*problem.convolution, key);
  }
};

constinit const Conv2dRules k_conv2d_rules;

}  // namespace

const OperationRules& conv2d_rules() noexcept { return k_conv2d_rules; }

}  // namespace spjit
