#include "kernels/cuda/narrow/narrow_executable.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/launch/cuda_matrix.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

/// Blocks for each SM that entries are divided among, before blocks have a full stage each.
constexpr std::int64_t k_blocks_an_sm = 4;
/// Entries of a block that make up for its beginning and end, at least.
constexpr std::int64_t k_least_entries = 128;

std::vector<std::uint32_t> blocks_of(const NarrowProgram& program, const CudaContext& context,
                                     const CsrMatrix& matrix) {
  const std::int64_t sms = std::max<std::int64_t>(context.device().limits.sms, 1);
  const std::int64_t share = ceil_div(matrix.nnz(), sms * k_blocks_an_sm);
  return divide_rows(matrix, std::clamp(share, k_least_entries, program.stage_entries()),
                     program.rows_a_block());
}

}  // namespace

std::vector<std::uint32_t> divide_rows(const CsrMatrix& matrix, std::int64_t most_entries,
                                       std::int64_t most_rows) {
  std::vector<std::uint32_t> first_rows = {0};
  std::int64_t begin = 0;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t entries =
        matrix.row_ptrs[to_size(row + 1)] - matrix.row_ptrs[to_size(begin)];
    if (row > begin && (entries > most_entries || row - begin == most_rows)) {
      first_rows.push_back(static_cast<std::uint32_t>(row));  // rows are below 2^31
      begin = row;
    }
  }
  first_rows.push_back(static_cast<std::uint32_t>(matrix.rows));
  return first_rows;
}

NarrowExecutable::NarrowExecutable(const NarrowProgram& program, const CudaContext& context,
                                   std::span<const std::byte> image, const CsrMatrix& matrix)
    : CudaExecutable(program, context, {most_reading_distance(program.is_far), k_max_dimension}),
      program_(program),
      functions_(
          load_functions(CudaModule(context, image), narrow_widths(program), narrow_kernel_name)),
      block_rows_(context, 0),
      row_ptrs_(device_array(context, matrix.row_ptrs)),
      columns_(device_array(context, matrix.col_idxs)),
      values_(device_array(context,
                           program.layer.runtime_values ? std::vector<float>() : matrix.values)) {
  const std::vector<std::uint32_t> first_rows = blocks_of(program, context, matrix);
  blocks_ = std::ssize(first_rows) - 1;
  block_rows_ = device_array(context, first_rows);
}

std::shared_ptr<const NarrowExecutable> NarrowExecutable::load(const NarrowProgram& program,
                                                               std::span<const std::byte> image,
                                                               int ordinal,
                                                               const CsrMatrix& matrix) {
  const CudaContext context = context_for(program.arch, ordinal);
  return std::shared_ptr<const NarrowExecutable>(
      new NarrowExecutable(program, context, image, matrix));
}

const CudaFunction& NarrowExecutable::function_for(const Arguments& arguments) const {
  return functions_[place_of_width(
      narrow_widths(program_), arguments,
      {.of_b = arguments.n, .of_c = program_.layer.has_tokens_of_c() ? 0 : arguments.n})];
}

void NarrowExecutable::launch_items(const Arguments& first, unsigned items) const {
  const CudaFunction& function = function_for(first);
  const std::int64_t tiles = ceil_div(first.n, program_.columns);
  for (std::int64_t tile = 0; tile < tiles; tile += k_cuda_max_grid_y) {
    // Not negative.
    const std::array<std::uint64_t, 4> added = {block_rows_.address(), row_ptrs_.address(),
                                                columns_.address(),
                                                static_cast<std::uint64_t>(tile)};
    CudaParameters parameters(first, static_cast<const float*>(values_.pointer()), added);
    const std::int64_t now = std::min(tiles - tile, k_cuda_max_grid_y);
    const CudaLaunchShape shape{.grid = {checked_cast<unsigned>(blocks_, "blocks of rows"),
                                         checked_cast<unsigned>(now, "blocks of columns"), items},
                                .block = {static_cast<unsigned>(k_narrow_threads), 1, 1}};
    function.launch(shape, first.stream, parameters.places());
  }
}

std::shared_ptr<const PreparedValues::Stream> NarrowExecutable::prepare_values(
    std::span<const float> values) const {
  return std::make_shared<const CudaValues>(
      id(), device_array(context(), std::vector<float>(values.begin(), values.end())));
}

std::int64_t NarrowExecutable::active_blocks() const {
  return functions_.front().active_blocks_per_sm(static_cast<int>(k_narrow_threads), 0);
}

}  // namespace spjit
