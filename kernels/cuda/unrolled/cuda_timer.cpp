#include "kernels/cuda/unrolled/cuda_timer.hpp"

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/value_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A stream for every tile of a matrix, of no kernel.
PreparedValues small_stream(const CudaContext& context, const CsrMatrix& a) {
  const std::int64_t floats = most_value_floats(a.nnz(), a.rows);
  DeviceBuffer buffer(context,
                      to_size(checked_multiply(floats, sizeof(float), "bytes of the values")));
  fill_with_small_values(buffer);
  return PreparedValues(std::make_shared<const CudaValues>(0, std::move(buffer)));
}

unsigned count_of(std::int64_t value, std::string_view what) {
  return checked_cast<unsigned>(value, what);
}

CudaLaunchShape shape_of(const CudaProxyLaunch& launch) {
  return {.grid = {count_of(launch.grid_x, "blocks of rows"),
                   count_of(launch.grid_y, "blocks of columns"), 1},
          .block = {count_of(launch.threads, "threads a tile"),
                    count_of(launch.tiles_a_block, "tiles a block"), 1},
          .dynamic_shared_bytes = count_of(launch.dynamic_shared_bytes, "bytes of shared memory")};
}

}  // namespace

CudaTimer::CudaTimer(int ordinal, const Problem& problem)
    : CudaTimer(CudaContext(local_cuda_driver(), ordinal), problem) {}

CudaTimer::CudaTimer(const CudaContext& context, const Problem& problem)
    : operands_(context, problem), arguments_(operands_.arguments()) {
  if (problem.runtime_values) values_ = small_stream(context, *problem.a);
}

CudaFunction CudaTimer::load(std::span<const std::byte> image) const {
  CudaFunction function = CudaModule(context(), image).function(k_cuda_kernel_name);
  function.load();
  return function;
}

double CudaTimer::time_us(const CudaFunction& function, const CudaProxyLaunch& launch,
                          std::int64_t calls) {
  if (launch.dynamic_shared_bytes > k_cuda_shared_bytes) {
    function.set_max_dynamic_shared(
        checked_cast<int>(launch.dynamic_shared_bytes, "bytes of shared memory"));
  }
  Arguments arguments = arguments_;
  arguments.values = &values_;
  CudaParameters parameters(arguments);
  const CudaLaunchShape shape = shape_of(launch);
  return operands_.time_us(calls,
                           [&] { function.launch(shape, arguments.stream, parameters.places()); });
}

std::vector<TuningResult> time_cuda_kernels(std::span<const CudaTuningCandidate> candidates,
                                            const TuningOptions& options, CudaTimer& timer) {
  std::vector<TuningResult> results(candidates.size());
  std::map<const std::byte*, CudaFunction> loaded;
  std::vector<TuningEntry> entries;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CudaTuningCandidate& candidate = candidates[i];
    if (options.check) options.check();
    try {
      auto found = loaded.find(candidate.image.data());
      if (found == loaded.end()) {
        found = loaded.emplace(candidate.image.data(), timer.load(candidate.image)).first;
      }
      entries.push_back(
          {candidate.name, [&timer, function = found->second, &candidate](std::int64_t calls) {
             return timer.time_us(function, candidate.launch, calls) * static_cast<double>(calls);
           }});
      places.push_back(i);
    } catch (const DeviceError& error) {
      results[i].outcome = TuningOutcome::failed;
      results[i].failure = error.what();
    }
  }
  std::vector<TuningResult> timed = run_tuning(entries, options);
  for (std::size_t i = 0; i < timed.size(); ++i) results[places[i]] = std::move(timed[i]);
  return results;
}

}  // namespace spjit
