#include "kernels/cuda/dense/dense_executable.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "kernels/dense_bits.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

/// A's values as the kernels read them: with their zeros, and alone.
class DenseCudaValues final : public CudaValues {
 public:
  DenseCudaValues(std::uint64_t kernel_id, DeviceBuffer with_zeros, DeviceBuffer entries,
                  std::uint32_t least)
      : CudaValues(kernel_id, std::move(with_zeros)), entries_(std::move(entries)), least_(least) {}

  [[nodiscard]] CudaAddress entries() const noexcept { return entries_.address(); }
  [[nodiscard]] std::uint32_t least() const noexcept { return least_; }

 private:
  DeviceBuffer entries_;
  std::uint32_t least_;
};

/// What a value of B must reach, as its bits; every one does where that is the least there is.
std::uint32_t least_bits(std::span<const float> values) {
  return std::max(magnitude_bits(least_b_for(least_magnitude(values))), 1U);
}

std::int64_t depth_tiles(std::int64_t cols, const DenseTile& tile) {
  return ceil_div(cols, tile.depth);
}

}  // namespace

double dense_bytes(std::int64_t rows, std::int64_t cols, const DenseTile& tile) noexcept {
  return as_double(round_up(rows, tile.rows)) * as_double(round_up(cols, tile.depth)) *
         sizeof(float);
}

std::vector<float> dense_values_of(const CsrMatrix& matrix, std::span<const float> values,
                                   const DenseTile& tile) {
  constexpr const char* k_what = "floats of A with its zeros";
  const std::int64_t stage = tile.rows * tile.depth;
  const std::int64_t stages = depth_tiles(matrix.cols, tile);
  const std::int64_t blocks = ceil_div(matrix.rows, tile.rows);
  const std::int64_t all =
      checked_multiply(checked_multiply(blocks, stages, k_what), stage, k_what);
  std::vector<float> dense(to_size(checked_add(all, stage, k_what)));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    float* const of_block = dense.data() + row / tile.rows * stages * stage + row % tile.rows;
    for (std::int64_t i = matrix.row_ptrs[to_size(row)]; i < matrix.row_ptrs[to_size(row) + 1];
         ++i) {
      of_block[matrix.col_idxs[to_size(i)] * tile.rows] = values[to_size(i)];
    }
  }
  return dense;
}

DenseCudaExecutable::DenseCudaExecutable(const DenseCudaProgram& program,
                                         const CudaContext& context,
                                         std::span<const std::byte> image, CsrMatrix matrix)
    : CudaExecutable(program, context, {most_reading_distance(program.is_far), k_max_dimension}),
      program_(program),
      functions_(load_functions(CudaModule(context, image), dense_widths(), dense_kernel_name)),
      matrix_(std::move(matrix)),
      row_ptrs_(device_array(context, matrix_.row_ptrs)),
      columns_(device_array(context, matrix_.col_idxs)) {
  const std::vector<float> values = std::exchange(matrix_.values, {});
  if (program.layer.runtime_values) return;
  own_values_ = DenseCudaExecutable::prepare_values(values);
  matrix_ = {};
}

std::shared_ptr<const DenseCudaExecutable> DenseCudaExecutable::load(
    const DenseCudaProgram& program, std::span<const std::byte> image, int ordinal,
    CsrMatrix matrix) {
  const CudaContext context = context_for(program.arch, ordinal);
  return std::shared_ptr<const DenseCudaExecutable>(
      new DenseCudaExecutable(program, context, image, std::move(matrix)));
}

const CudaFunction& DenseCudaExecutable::function_for(const Arguments& arguments) const {
  const CudaLayer& layer = program_.layer;
  return functions_[place_of_width(
      dense_widths(), arguments,
      {.of_b = layer.has_tokens_of_b() ? program_.cols : arguments.n,
       .of_c = layer.has_tokens_of_c() ? program_.rows : arguments.n})];
}

void DenseCudaExecutable::launch_items(const Arguments& first, unsigned items) const {
  const DenseTile& tile = program_.tile;
  const PreparedValues own(own_values_);
  Arguments arguments = first;
  if (own_values_ != nullptr) arguments.values = &own;
  const auto& values = dynamic_cast<const DenseCudaValues&>(*arguments.values->stream());
  const CudaFunction& function = function_for(first);
  const std::int64_t tiles = ceil_div(first.n, tile.columns);
  const std::int64_t blocks = ceil_div(program_.rows, tile.rows);
  // None of these is negative.
  const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  for (std::int64_t column = 0; column < tiles; column += k_cuda_max_grid_y) {
    const std::array<std::uint64_t, 8> added = {row_ptrs_.address(),
                                                columns_.address(),
                                                values.entries(),
                                                word(program_.rows),
                                                word(depth_tiles(program_.cols, tile)),
                                                word(program_.cols),
                                                word(column),
                                                values.least()};
    CudaParameters parameters(arguments, nullptr, added);
    const std::int64_t now = std::min(tiles - column, k_cuda_max_grid_y);
    const CudaLaunchShape shape{.grid = {checked_cast<unsigned>(blocks, "blocks of rows"),
                                         checked_cast<unsigned>(now, "blocks of columns"), items},
                                .block = {checked_cast<unsigned>(tile.threads(), "threads"), 1, 1}};
    function.launch(shape, first.stream, parameters.places());
  }
}

std::shared_ptr<const PreparedValues::Stream> DenseCudaExecutable::prepare_values(
    std::span<const float> values) const {
  return std::make_shared<const DenseCudaValues>(
      id(), device_array(context(), dense_values_of(matrix_, values, program_.tile)),
      device_array(context(), std::vector<float>(values.begin(), values.end())),
      least_bits(values));
}

std::int64_t DenseCudaExecutable::active_blocks() const {
  return functions_.front().active_blocks_per_sm(static_cast<int>(program_.tile.threads()), 0);
}

}  // namespace spjit
