#pragma once

/// @file
/// The problem that a kernel computes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "spjit/convolution.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/export.hpp"
#include "spjit/group_scales.hpp"
#include "spjit/layout.hpp"
#include "spjit/matrix.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

/// The operation on A, B and C.
enum class Operation : std::uint8_t {
  spmm,    ///< C `[m x n]` = A `[m x k]` * B `[k x n]`, A sparse
  conv2d,  ///< C = A * B, where B holds patches of an image: Problem::convolution
};

/// "spmm", "conv2d".
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(Operation operation);

/// A matrix that several owners share. Converts from a CsrMatrix, which it copies or moves, and
/// from a pointer.
class SharedMatrix {
 public:
  SharedMatrix() = default;
  SharedMatrix(CsrMatrix matrix)  // NOLINT(google-explicit-constructor): `{.a = matrix}`
      : matrix_(std::make_shared<const CsrMatrix>(std::move(matrix))) {}
  SharedMatrix(std::shared_ptr<const CsrMatrix> matrix)  // NOLINT(google-explicit-constructor)
      : matrix_(std::move(matrix)) {}

  [[nodiscard]] const CsrMatrix& operator*() const noexcept { return *matrix_; }
  [[nodiscard]] const CsrMatrix* operator->() const noexcept { return matrix_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return matrix_ != nullptr; }

 private:
  std::shared_ptr<const CsrMatrix> matrix_;
};

/// A size that is known when a kernel is compiled, or only when it runs.
struct Extent {
  std::int64_t value =
      0;  ///< the size; of a run-time one a typical value, which choices are made for
  bool runtime = false;  ///< a run may have any size

  Extent() = default;
  Extent(std::int64_t fixed) : value(fixed) {}  // NOLINT(google-explicit-constructor): `{.n = 64}`
  [[nodiscard]] static Extent at_run_time(std::int64_t typical) {
    Extent extent(typical);
    extent.runtime = true;
    return extent;
  }

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// How B or C lies in memory.
struct DenseFormat {
  /// Elements between rows (tokens-major: between tokens); 0: as many as one has. Host kernels take
  /// others when they run, maybe slower; a GPU kernel takes others only if n is a run-time size.
  std::int64_t leading_dimension = 0;
  Layout layout = Layout::row_major;

  friend bool operator==(const DenseFormat&, const DenseFormat&) = default;
};

/// C `[m x n]` = epilogue(A `[m x k]` * B `[k x n]`), A's values part of the kernel. A plain value
/// that knows nothing of targets. With A it is all that decides what a kernel computes.
struct Problem {
  Operation operation = Operation::spmm;
  SharedMatrix a = {};  ///< `[m x k]`
  /// Columns of B and C, 1 .. 2^31 - 1; required. Of a convolution the pixels of its output: 0
  /// stands for them, and with a run-time n height and width are what a run says.
  Extent n = {};
  /// `[k x n]`. Of a convolution X, an image `[channels x height * width]`: row-major is NCHW,
  /// tokens-major NHWC; images of one run are a batch (Arguments::batch).
  DenseFormat b = {};
  DenseFormat c = {};  ///< `[m x n]`; of a convolution Y `[filters x pixels]`, likewise
  Epilogue epilogue = {};
  /// Each run brings A's values (Arguments::values): a kernel is of A's pattern alone, and
  /// checkpoints that share it share the kernel. Those of `a` serve for checks.
  bool runtime_values = false;
  /// Fixes the panel width of panel-major B and C (a multiple of the vector's lanes), so that
  /// layers chain panel-major. None: chosen.
  std::optional<std::int64_t> panel_columns = {};
  /// With Operation::conv2d, and only then: A is its weights `[filters x channels / groups *
  /// kernel_height * kernel_width]`.
  std::optional<Convolution> convolution = {};
  /// Types of A, B and C, the promise on the sums, and how B is quantised: fp32 in order. `a` holds
  /// values that the type of A has exactly. On the host types of A, B and C up to 16 bits in order
  /// are as fast, exact sums of bytes faster. Others are for the slow family `reference`.
  Numerics numerics = {};
  /// Scales of groups of columns, with A of i8 or i4, A's values part of the kernel, and sums that
  /// are `ordered` or, of bytes, `integer`. None: A has the weights. No convolution has them.
  std::shared_ptr<const GroupScales> group_scales = {};

  /// Rows of B: k, or the channels of X. Columns: n, or the pixels of X.
  [[nodiscard]] std::int64_t b_rows() const noexcept {
    return convolution ? convolution->channels : a->cols;
  }
  [[nodiscard]] std::int64_t b_columns() const noexcept {
    return convolution ? convolution->height * convolution->width : n.value;
  }
  /// Leading dimensions of B and of C, with the default filled in.
  [[nodiscard]] std::int64_t ldb() const noexcept {
    if (b.leading_dimension > 0) return b.leading_dimension;
    return b.layout == Layout::tokens_major ? b_rows() : b_columns();
  }
  [[nodiscard]] std::int64_t ldc() const noexcept {
    if (c.leading_dimension > 0) return c.leading_dimension;
    return c.layout == Layout::tokens_major ? a->rows : n.value;
  }
};

}  // namespace spjit
