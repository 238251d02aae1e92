#include "kernels/cuda/packed/packed_executable.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "matrix/limits.hpp"

namespace spjit {

PackedExecutable::PackedExecutable(const PackedProgram& program, const CudaContext& context,
                                   std::span<const std::byte> image, PackedRows rows,
                                   std::span<const float> values)
    : CudaExecutable(program, context, {most_reading_distance(program.is_far), k_max_dimension}),
      program_(program),
      rows_(std::move(rows)),
      functions_(
          load_functions(CudaModule(context, image), packed_widths(program), packed_kernel_name)),
      bitmaps_(device_array(context, rows_.bitmaps)),
      starts_(device_array(context, rows_.starts)),
      values_(device_array(context, program.layer.runtime_values ? std::vector<std::byte>()
                                                                 : rows_.arrange(values))) {
  if (program.layer.runtime_values) return;
  // The GPU has these.
  rows_.row_ptrs = {};
  rows_.bitmaps = {};
  rows_.starts = {};
}

std::shared_ptr<const PackedExecutable> PackedExecutable::load(const PackedProgram& program,
                                                               std::span<const std::byte> image,
                                                               int ordinal, const CsrMatrix& matrix,
                                                               const Cancellation& cancel) {
  const CudaContext context = context_for(program.arch, ordinal);
  return std::shared_ptr<const PackedExecutable>(new PackedExecutable(
      program, context, image, PackedRows(matrix, program.form, cancel), matrix.values));
}

const CudaFunction& PackedExecutable::function_for(const Arguments& arguments) const {
  return functions_[place_of_width(
      packed_widths(program_), arguments,
      {.of_b = arguments.n, .of_c = program_.layer.has_tokens_of_c() ? 0 : arguments.n})];
}

void PackedExecutable::launch_items(const Arguments& first, unsigned items) const {
  const CudaFunction& function = function_for(first);
  const std::int64_t tiles = ceil_div(first.n, program_.columns);
  // None of these is negative.
  const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  for (std::int64_t tile = 0; tile < tiles; tile += k_cuda_max_grid_y) {
    const std::array<std::uint64_t, 7> added = {bitmaps_.address(),
                                                starts_.address(),
                                                word(program_.rows),
                                                word(program_.cols),
                                                word(program_.form.group_rows),
                                                word(rows_.sizes.chunks),
                                                word(tile)};
    CudaParameters parameters(first, static_cast<const float*>(values_.pointer()), added);
    const std::int64_t now = std::min(tiles - tile, k_cuda_max_grid_y);
    const CudaLaunchShape shape{.grid = {checked_cast<unsigned>(rows_.sizes.groups, "row groups"),
                                         checked_cast<unsigned>(now, "blocks of columns"), items},
                                .block = {static_cast<unsigned>(k_packed_threads), 1, 1}};
    function.launch(shape, first.stream, parameters.places());
  }
}

std::shared_ptr<const PreparedValues::Stream> PackedExecutable::prepare_values(
    std::span<const float> values) const {
  return std::make_shared<const CudaValues>(id(), device_array(context(), rows_.arrange(values)));
}

std::int64_t PackedExecutable::active_blocks() const {
  return functions_.front().active_blocks_per_sm(static_cast<int>(k_packed_threads), 0);
}

}  // namespace spjit
