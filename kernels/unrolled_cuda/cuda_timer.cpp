#include "kernels/unrolled_cuda/cuda_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/unrolled_cuda/cuda_parameters.hpp"
#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "kernels/unrolled_cuda/value_stream.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

const Problem& checked(const Problem& problem) {
  const CsrMatrix& a = *problem.a;
  const std::int64_t n = problem.n.value;
  const std::int64_t least_ldb = problem.b.layout == Layout::tokens_major ? 1 : problem.b_columns();
  const std::int64_t least_ldc = problem.c.layout == Layout::tokens_major ? a.rows : n;
  if (a.rows >= 1 && a.cols >= 0 && n >= 1 && problem.ldb() >= least_ldb &&
      problem.ldc() >= least_ldc) {
    return problem;
  }
  throw InvalidArgument(
      fmt::format("timing with m = {}, k = {}, n = {}, ldb = {}, ldc = {}; expected m, n >= 1, "
                  "k >= 0 and leading dimensions of at least n or an image's pixels",
                  a.rows, a.cols, n, problem.ldb(), problem.ldc()));
}

/// So many rows of n elements, or n tokens of so many; tokens may overlap.
std::size_t bytes_of(Layout layout, std::int64_t rows, std::int64_t n, std::int64_t ld) {
  constexpr const char* k_what = "bytes of an operand";
  const bool has_tokens = layout == Layout::tokens_major;
  const std::int64_t product =
      checked_multiply(has_tokens ? n : rows, has_tokens ? std::max(ld, rows) : ld, k_what);
  const std::int64_t floats = std::max<std::int64_t>(product, 1);
  return to_size(checked_multiply(floats, sizeof(float), k_what));
}

/// Sums of a few thousand products of these with values near 1 stay far from overflow.
constexpr std::size_t k_distinct_values = 17;

/// As many as are copied at once: host memory does not grow with B. They begin anew with each part.
std::vector<float> small_values() {
  std::vector<float> values(k_distinct_values << 16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % k_distinct_values) * 0.125F - 1.0F;
  }
  return values;
}

void fill_with_small_values(DeviceBuffer& buffer) {
  const std::vector<float> values = small_values();
  const std::span<const std::byte> part = std::as_bytes(std::span(values));
  for (std::size_t at = 0; at < buffer.bytes(); at += part.size()) {
    buffer.upload(part.first(std::min(part.size(), buffer.bytes() - at)), at);
  }
}

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
    : n_(checked(problem).n.value),
      ldb_(problem.ldb()),
      ldc_(problem.ldc()),
      b_(context, bytes_of(problem.b.layout, problem.b_rows(), problem.b_columns(), ldb_)),
      c_(context, bytes_of(problem.c.layout, problem.a->rows, n_, ldc_)),
      epilogue_(context, problem.epilogue.residual
                             ? c_.bytes()
                             : bytes_of(Layout::row_major, problem.a->rows, 1, 1)),
      stream_(context),
      begin_(context),
      end_(context) {
  fill_with_small_values(b_);
  if (problem.runtime_values) values_ = small_stream(context, *problem.a);
  c_.fill_on(stream_.handle(), std::byte{0});
  epilogue_.fill_on(stream_.handle(), std::byte{0});
  stream_.synchronize();
}

CudaFunction CudaTimer::load(std::span<const std::byte> image) const {
  CudaFunction function = CudaModule(context(), image).function(k_cuda_kernel_name);
  function.load();
  return function;
}

double CudaTimer::time_us(const CudaFunction& function, const CudaProxyLaunch& launch,
                          std::int64_t calls) {
  if (calls < 1) {
    throw InvalidArgument(fmt::format("timing {} launches; expected at least one", calls));
  }
  if (launch.dynamic_shared_bytes > k_cuda_shared_bytes) {
    function.set_max_dynamic_shared(
        checked_cast<int>(launch.dynamic_shared_bytes, "bytes of shared memory"));
  }
  const auto* const epilogue = static_cast<const float*>(epilogue_.pointer());
  CudaParameters parameters({.b = static_cast<const float*>(b_.pointer()),
                             .ldb = ldb_,
                             .c = static_cast<float*>(c_.pointer()),
                             .ldc = ldc_,
                             .n = n_,
                             .scale = epilogue,
                             .bias = epilogue,
                             .residual = epilogue,
                             .ldr = ldc_,
                             .values = &values_});
  const CudaLaunchShape shape = shape_of(launch);
  begin_.record(stream_.handle());
  for (std::int64_t call = 0; call < calls; ++call) {
    function.launch(shape, stream_.handle(), parameters.places());
  }
  end_.record(stream_.handle());
  end_.synchronize();
  return end_.ms_since(begin_) * 1000 / static_cast<double>(calls);
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
