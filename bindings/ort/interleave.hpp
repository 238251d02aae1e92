#pragma once

/// @file
/// The last step of a transposed convolution, whose phases are channels of one convolution: the
/// operator Interleave of the domain spjit.
///
/// Input: X [batch, groups * rows * columns * channels, height, width], fp32. Output:
/// Y [batch, groups * channels, height * rows - crop_rows, width * columns - crop_columns],
///
///     Y[n][g, c][p][q] = X[n][g, p % rows, q % columns, c][p / rows][q / columns]

#include <cstdint>
#include <string>

#include "bindings/ort/api.hpp"
#include "bindings/ort/sparse_layer.hpp"

namespace spjit::ort {

/// The attributes of a node.
struct Interleaving {
  Pair phases = {1, 1};  ///< rows and columns: the stride of the transposed convolution
  Pair crop = {0, 0};    ///< rows and columns of Y that are left out at its end
  std::int64_t groups = 1;
};

/// Throws InvalidArgument for attributes that no node has.
void check(const Interleaving& of);

/// Y's shape. Throws InvalidArgument for an X that does not fit, or whose Y has images of no size.
[[nodiscard]] Shape interleaved_shape(const Interleaving& of, const Shape& x);

/// Writes one channel of one image of Y, `plane` = image * channels of Y + channel. Shapes without
/// an empty dimension.
void interleave_plane(const Interleaving& of, const Tensor& x, const Tensor& y, std::int64_t plane);

/// Runs in the threads of the session. Any number of threads may run one.
class Interleave {
 public:
  /// Throws InvalidArgument.
  Interleave(Api api, std::string where, const Interleaving& of);

  [[nodiscard]] const Api& api() const noexcept { return api_; }
  /// How messages about it begin.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// Throws Error, InvalidArgument.
  void run(KernelContext* context) const;

 private:
  Api api_;
  std::string where_;
  Interleaving of_;
};

}  // namespace spjit::ort
