#include "plan/operation.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "spjit/error.hpp"

namespace spjit {
namespace {

class SpmmRules final : public OperationRules {
 public:
  [[nodiscard]] Operation operation() const noexcept override { return Operation::spmm; }
  [[nodiscard]] std::string_view name() const noexcept override { return "spmm"; }
  [[nodiscard]] std::string_view noun() const noexcept override { return "a product"; }
  [[nodiscard]] ProblemFeature feature() const noexcept override { return ProblemFeature::spmm; }

  [[nodiscard]] bool gathers_b() const noexcept override { return false; }
  [[nodiscard]] bool takes_panels() const noexcept override { return true; }
  [[nodiscard]] bool has_images() const noexcept override { return false; }
  [[nodiscard]] std::string_view columns_text() const noexcept override { return "n ="; }

  [[nodiscard]] StoredSize stored_b(const OperationSizes& sizes) const noexcept override {
    return {sizes.cols, sizes.n};
  }
  [[nodiscard]] RowRanges stored_rows(const OperationSizes& /*sizes*/,
                                      RowRanges rows) const override {
    return rows;
  }
  [[nodiscard]] std::string details(const OperationSizes& /*sizes*/) const override { return {}; }
  [[nodiscard]] OtherRun other_run(const OperationSizes& run) const override {
    // A vector and a tail.
    constexpr std::int64_t k_other_n = 19;
    return {.n = run.n == k_other_n ? k_other_n + 2 : k_other_n};
  }

  [[nodiscard]] std::int64_t columns_of_a(const Problem& /*problem*/) const override { return 0; }
  void check(const Problem& problem) const override {
    if (!problem.convolution) return;
    throw InvalidArgument("Problem::convolution is set, but the operation is spmm");
  }
  void set_n(Problem& /*problem*/) const noexcept override {}
  void simplify(Problem& /*problem*/, const Cancellation& /*cancel*/) const override {}
  [[nodiscard]] bool is_same(const Problem& /*made*/, const Problem& /*wanted*/,
                             bool /*any_size*/) const override {
    return true;
  }
  void add_to_key(const Problem& /*problem*/, KeyBuilder& /*key*/) const override {}
};

constinit const SpmmRules k_spmm_rules;

std::string numbered_names() {
  std::string text;
  for (const OperationRules* rules : all_operations()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : " or ",
                        static_cast<int>(rules->operation()), rules->name());
  }
  return text;
}

}  // namespace

const OperationRules& spmm_rules() noexcept { return k_spmm_rules; }

std::span<const OperationRules* const> all_operations() noexcept {
  static const std::array k_all = {&spmm_rules(), &conv2d_rules()};
  return k_all;
}

const OperationRules& rules_of(Operation operation) {
  const auto number = static_cast<std::size_t>(operation);
  if (number < all_operations().size()) return *all_operations()[number];
  throw InvalidArgument(fmt::format("the operation is {}; expected {}", number, numbered_names()));
}

}  // namespace spjit
