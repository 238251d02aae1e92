#include "kernels/cuda/unrolled/unrolled_executable.hpp"

#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "runtime/cuda/cuda_memory.hpp"

namespace spjit {

UnrolledCudaExecutable::UnrolledCudaExecutable(const UnrolledProgram& program,
                                               const CudaContext& context,
                                               std::span<const std::byte> image,
                                               std::vector<std::uint32_t> positions)
    : CudaExecutable(program, context,
                     {k_cuda_max_leading_dimension, k_cuda_max_grid_y * program.n1()}),
      program_(program),
      function_(CudaModule(context, image).function(k_cuda_kernel_name)),
      positions_(std::move(positions)) {
  function_.load();
}

std::shared_ptr<const UnrolledCudaExecutable> UnrolledCudaExecutable::load(
    const UnrolledProgram& program, std::span<const std::byte> image, int ordinal,
    std::vector<std::uint32_t> positions) {
  const CudaContext context = context_for(program.arch, ordinal);
  return std::shared_ptr<const UnrolledCudaExecutable>(
      new UnrolledCudaExecutable(program, context, image, std::move(positions)));
}

void UnrolledCudaExecutable::launch_items(const Arguments& first, unsigned items) const {
  CudaParameters parameters(first);
  const CudaLaunchShape shape{
      .grid = {checked_cast<unsigned>(program_.blocks_x, "blocks of rows"),
               checked_cast<unsigned>(program_.blocks_y(first.n), "blocks of columns"), items},
      .block = {checked_cast<unsigned>(program_.n1(), "threads a tile"),
                checked_cast<unsigned>(program_.tiles_a_block, "tiles a block"), 1},
      .dynamic_shared_bytes =
          checked_cast<unsigned>(program_.shared_bytes(), "bytes of shared memory")};
  function_.launch(shape, first.stream, parameters.places());
}

std::shared_ptr<const PreparedValues::Stream> UnrolledCudaExecutable::prepare_values(
    std::span<const float> values) const {
  const std::vector<float> stream = arrange_values(positions_, values);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(stream));
  DeviceBuffer floats(context(), bytes.size());
  floats.upload(bytes);
  return std::make_shared<const CudaValues>(id(), std::move(floats));
}

std::int64_t UnrolledCudaExecutable::active_blocks() const {
  return function_.active_blocks_per_sm(static_cast<int>(program_.threads),
                                        to_size(program_.shared_bytes()));
}

}  // namespace spjit
