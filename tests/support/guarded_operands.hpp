#pragma once

/// @file
/// Operands of kernels, each between pages that cannot be touched.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_program.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// Columns of B and C, and the floats between their rows.
struct OperandShape {
  std::int64_t n = 1;
  std::int64_t ldb = 1;
  std::int64_t ldc = 1;
};

/// B and C without a float behind the last row's last column. Nobody may write to B.
class GuardedOperands {
 public:
  static constexpr float k_untouched = -7.25F;

  GuardedOperands(const CsrMatrix& matrix, const OperandShape& shape, GuardPlacement placement,
                  std::span<const float> b = {})
      : shape_(shape),
        b_(b.empty() ? drawn(matrix, shape) : b, placement),
        c_(floats(matrix.rows, shape.ldc, shape.n), placement) {
    std::ranges::fill(c_.span(), k_untouched);
  }

  [[nodiscard]] const float* b() const noexcept { return b_.data(); }
  [[nodiscard]] float* c() const noexcept { return c_.data(); }
  [[nodiscard]] std::int64_t ldb() const noexcept { return shape_.ldb; }
  [[nodiscard]] std::int64_t ldc() const noexcept { return shape_.ldc; }
  [[nodiscard]] std::span<float> all_of_c() const noexcept { return c_.span(); }

  /// Floats of a matrix whose rows lie `ld` apart.
  [[nodiscard]] static std::int64_t floats(std::int64_t rows, std::int64_t ld, std::int64_t n) {
    return rows == 0 ? 0 : (rows - 1) * ld + n;
  }

  /// Whether C is `product` `[rows x n]` bit for bit, and all between its rows and around it as it
  /// was.
  [[nodiscard]] bool holds(std::span<const float> product) const {
    for (std::int64_t i = 0; i < std::ssize(c_.span()); ++i) {
      const std::int64_t column = i % shape_.ldc;
      const float wanted =
          column < shape_.n ? product[index(i / shape_.ldc * shape_.n + column)] : k_untouched;
      if (!same_value(c_.span()[index(i)], wanted)) return false;
    }
    return b_.intact() && c_.intact();
  }
  /// Whether C holds the evaluator's product.
  [[nodiscard]] bool holds_product(const CsrMatrix& matrix, HostIsa isa) const {
    return holds(reference_product(matrix, isa, b(), shape_.ldb, shape_.n));
  }

  [[nodiscard]] std::string describe() const {
    return "n " + std::to_string(shape_.n) + " ldb " + std::to_string(shape_.ldb) + " ldc " +
           std::to_string(shape_.ldc);
  }

 private:
  static std::vector<float> drawn(const CsrMatrix& matrix, const OperandShape& shape) {
    return dense_values(floats(matrix.cols, shape.ldb, shape.n));
  }

  OperandShape shape_;
  GuardedFloats b_;
  GuardedFloats c_;
};

/// An image whose weights and program record are read-only copies. The text is where it was: it is
/// executed, or copied to be.
class GuardedImage {
 public:
  GuardedImage(const HostImage& image, GuardPlacement placement)
      : text_(image.text), weights_(image.weights, placement), program_(image.program, placement) {}

  [[nodiscard]] HostImage image() const noexcept {
    return {text_, weights_.span(), program_.span()};
  }

 private:
  std::span<const std::byte> text_;
  Guarded<std::byte> weights_;
  Guarded<std::byte> program_;
};

}  // namespace spjit::testing_support
