#include "bindings/ort/interleave.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace spjit::ort {
namespace {

/// Writes `count` elements of a row of Y. `x`: of the first phase; the others are `distance` apart.
void interleave_row(const float* x, std::int64_t distance, std::int64_t phases, float* y,
                    std::int64_t count) {
  if (phases == 1) {
    std::copy_n(x, count, y);
    return;
  }
  if (phases == 2) {  // which compilers have vector instructions for
    const float* const odd = x + distance;
    for (std::int64_t i = 0; i < count / 2; ++i) {
      y[2 * i] = x[i];
      y[2 * i + 1] = odd[i];
    }
    if (count % 2 != 0) y[count - 1] = x[count / 2];
    return;
  }
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    const float* const from = x + phase * distance;
    for (std::int64_t i = phase; i < count; i += phases) y[i] = from[i / phases];
  }
}

}  // namespace

void check(const Interleaving& of) {
  constexpr std::int64_t k_most = 1 << 15;
  const auto [rows, columns] = of.phases;
  const bool is_in = rows >= 1 && rows <= k_most && columns >= 1 && columns <= k_most &&
                     of.groups >= 1 && of.groups <= INT32_MAX && of.crop[0] >= 0 &&
                     of.crop[0] <= INT32_MAX && of.crop[1] >= 0 && of.crop[1] <= INT32_MAX;
  if (!is_in) {
    throw InvalidArgument(fmt::format(
        "phases are {} x {}, crops {} and {}, groups {}; expected phases of 1 .. {}, crops of 0 "
        "and more and groups of 1 and more",
        rows, columns, of.crop[0], of.crop[1], of.groups, k_most));
  }
}

Shape interleaved_shape(const Interleaving& of, const Shape& x) {
  const auto [rows, columns] = of.phases;
  if (x.size() != 4 || x[1] % (of.groups * rows * columns) != 0) {
    throw InvalidArgument(
        fmt::format("X has the shape [{}]; expected [batch, a multiple of {} * {} * {}, height, "
                    "width]",
                    fmt::join(x, ", "), of.groups, rows, columns));
  }
  const std::int64_t height = x[2] * rows - of.crop[0];
  const std::int64_t width = x[3] * columns - of.crop[1];
  if (height < 1 || width < 1) {  // as ONNX Runtime and PyTorch refuse them
    throw InvalidArgument(
        fmt::format("X has the shape [{}]; its images, {} x {} times larger and without the last "
                    "{} rows and {} columns, would be {} x {}; expected 1 x 1 and more",
                    fmt::join(x, ", "), rows, columns, of.crop[0], of.crop[1], height, width));
  }
  return {x[0], x[1] / (rows * columns), height, width};
}

void interleave_plane(const Interleaving& of, const Tensor& x, const Tensor& y,
                      std::int64_t plane) {
  const auto [rows, columns] = of.phases;
  const std::int64_t channels = y.shape[1] / of.groups;  // of a group
  const std::int64_t height = y.shape[2];
  const std::int64_t width = y.shape[3];
  const std::int64_t pixels = x.shape[2] * x.shape[3];
  const std::int64_t distance = channels * pixels;  // between phases
  // An image's groups are as many phases each, so images and groups count on alike.
  const float* const first =
      x.floats() + (plane / channels * rows * columns * channels + plane % channels) * pixels;
  float* to = y.floats() + plane * height * width;
  for (std::int64_t row = 0; row < height; ++row, to += width) {
    const float* const from = first + row % rows * columns * distance + row / rows * x.shape[3];
    interleave_row(from, distance, columns, to, width);
  }
}

Interleave::Interleave(Api api, std::string where, const Interleaving& of)
    : api_(api), where_(std::move(where)), of_(of) {
  check(of_);
}

void Interleave::run(KernelContext* context) const {
  struct Planes {
    const Interleaving& of;
    Tensor x;
    Tensor y;
  };
  const Tensor x = tensor_of(api_, api_.get<const Value*, GetInput>(
                                       static_cast<const KernelContext*>(context), std::size_t{0}));
  const Shape shape = interleaved_shape(of_, x.shape);
  auto* const output =
      api_.get<Value*, GetOutput>(context, std::size_t{0}, shape.data(), shape.size());
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;

  Planes planes{of_, x, {api_.get<void*, GetTensorData>(output), shape}};
  const auto one = [](void* given, std::size_t index) {
    const Planes& its = *static_cast<const Planes*>(given);
    interleave_plane(its.of, its.x, its.y, static_cast<std::int64_t>(index));
  };
  api_.call<ParallelFor>(static_cast<const KernelContext*>(context), one,
                         static_cast<std::size_t>(shape[0] * shape[1]), std::size_t{0},
                         static_cast<void*>(&planes));
}

}  // namespace spjit::ort
