#include "kernels/cuda/csr/csr_executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "matrix/limits.hpp"

namespace spjit {
CsrCudaExecutable::CsrCudaExecutable(const CsrCudaProgram& program, const CudaContext& context,
                                     std::span<const std::byte> image, const CsrMatrix& matrix)
    : CudaExecutable(program, context, {most_reading_distance(program.is_far), k_max_dimension}),
      program_(program),
      rows_(matrix, program.layer.convolution),
      functions_(load_functions(CudaModule(context, image), csr_widths(program.layer, program.tile),
                                csr_kernel_name)),
      order_(device_array(context, rows_.order)),
      begins_(device_array(context, rows_.begins)),
      lengths_(device_array(context, rows_.lengths)),
      columns_(device_array(context, rows_.columns)),
      down_(device_array(context, rows_.down)),
      right_(device_array(context, rows_.right)),
      values_(device_array(context, program.layer.runtime_values ? std::vector<float>()
                                                                 : rows_.arrange(matrix.values))) {
  // The GPU has these; what the values of a run are arranged by stays.
  for (std::vector<std::uint32_t>* array :
       {&rows_.order, &rows_.columns, &rows_.down, &rows_.right}) {
    *array = std::vector<std::uint32_t>();
  }
}

std::shared_ptr<const CsrCudaExecutable> CsrCudaExecutable::load(const CsrCudaProgram& program,
                                                                 std::span<const std::byte> image,
                                                                 int ordinal,
                                                                 const CsrMatrix& matrix) {
  const CudaContext context = context_for(program.arch, ordinal);
  return std::shared_ptr<const CsrCudaExecutable>(
      new CsrCudaExecutable(program, context, image, matrix));
}

const CudaFunction& CsrCudaExecutable::function_for(const Arguments& arguments) const {
  return functions_[place_of_width(
      csr_widths(program_.layer, program_.tile), arguments,
      {.of_b = arguments.n, .of_c = program_.layer.has_tokens_of_c() ? 0 : arguments.n})];
}

CsrCudaExecutable::Added CsrCudaExecutable::added_parameters(const Arguments& arguments,
                                                             std::int64_t first_tile) const {
  // None of these is negative.
  const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  Convolution of = program_.layer.convolution.value_or(Convolution{});
  if (program_.layer.convolution) {
    of.height = arguments.height;
    of.width = arguments.width;
  }
  return {order_.address(),      begins_.address(), lengths_.address(),      columns_.address(),
          down_.address(),       right_.address(),  word(program_.rows),     word(first_tile),
          word(of.height),       word(of.width),    word(of.output_width()), word(of.stride_height),
          word(of.stride_width), word(of.pad_top),  word(of.pad_left)};
}

void CsrCudaExecutable::launch_items(const Arguments& first, unsigned items) const {
  if (program_.layer.convolution && first.height > k_most_csr_pixels / first.width) {
    throw InvalidArgument(fmt::format("images of {} x {} pixels; this kernel takes up to {}",
                                      first.height, first.width, k_most_csr_pixels));
  }
  const CudaFunction& function = function_for(first);
  const std::int64_t tiles = ceil_div(first.n, program_.tile.width());
  const std::int64_t blocks = ceil_div(program_.rows, program_.tile.rows_a_block());
  for (std::int64_t tile = 0; tile < tiles; tile += k_cuda_max_grid_y) {
    const Added added = added_parameters(first, tile);
    CudaParameters parameters(first, static_cast<const float*>(values_.pointer()), added);
    const std::int64_t now = std::min(tiles - tile, k_cuda_max_grid_y);
    const CudaLaunchShape shape{.grid = {checked_cast<unsigned>(blocks, "blocks of rows"),
                                         checked_cast<unsigned>(now, "blocks of columns"), items},
                                .block = {static_cast<unsigned>(k_csr_cuda_threads), 1, 1}};
    function.launch(shape, first.stream, parameters.places());
  }
}

std::shared_ptr<const PreparedValues::Stream> CsrCudaExecutable::prepare_values(
    std::span<const float> values) const {
  return std::make_shared<const CudaValues>(id(), device_array(context(), rows_.arrange(values)));
}

std::int64_t CsrCudaExecutable::active_blocks() const {
  return functions_.front().active_blocks_per_sm(static_cast<int>(k_csr_cuda_threads), 0);
}

}  // namespace spjit
