#include "compiler/cuda_timer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/cuda_tile.hpp"
#include "compiler/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Dynamic shared memory that every launch may have (CUDA C++ Programming Guide, "Shared Memory" of
/// the compute capabilities); more has to be allowed first.
constexpr std::int64_t k_shared_without_opt_in_bytes = 48 << 10;

const CudaTimerShape& checked(const CudaTimerShape& shape) {
  if (shape.m >= 1 && shape.k >= 0 && shape.n >= 1 && shape.ldb >= shape.n &&
      shape.ldc >= shape.n) {
    return shape;
  }
  throw InvalidArgument(
      fmt::format("timing with m = {}, k = {}, n = {}, ldb = {}, ldc = {}; expected m, n >= 1, "
                  "k >= 0 and leading dimensions of at least n",
                  shape.m, shape.k, shape.n, shape.ldb, shape.ldc));
}

std::size_t bytes_of(std::int64_t rows, std::int64_t ld) {
  return static_cast<std::size_t>(std::max<std::int64_t>(rows * ld, 1)) * sizeof(float);
}

/// Sums of a few thousand products of these with values near 1 stay far from overflow.
std::vector<float> small_values(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
  return values;
}

CudaLaunchShape shape_of(const CudaProxyLaunch& launch) {
  return {.grid = {static_cast<unsigned>(launch.grid_x), static_cast<unsigned>(launch.grid_y), 1},
          .block = {static_cast<unsigned>(launch.threads), 1, 1},
          .dynamic_shared_bytes = static_cast<unsigned>(launch.dynamic_shared_bytes)};
}

}  // namespace

CudaTimer::CudaTimer(int ordinal, const CudaTimerShape& shape)
    : CudaTimer(CudaContext(local_cuda_driver(), ordinal), shape) {}

CudaTimer::CudaTimer(const CudaContext& context, const CudaTimerShape& shape)
    : shape_(checked(shape)),
      b_(context, bytes_of(shape.k, shape.ldb)),
      c_(context, bytes_of(shape.m, shape.ldc)),
      stream_(context),
      begin_(context),
      end_(context) {
  const std::vector<float> b = small_values(b_.bytes() / sizeof(float));
  b_.upload(std::as_bytes(std::span(b)));
  c_.fill_on(stream_.handle(), std::byte{0});
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
  if (launch.dynamic_shared_bytes > k_shared_without_opt_in_bytes) {
    function.set_max_dynamic_shared(static_cast<int>(launch.dynamic_shared_bytes));
  }
  CudaAddress b = b_.address();
  CudaAddress c = c_.address();
  auto n = static_cast<unsigned>(shape_.n);
  auto ldb = static_cast<unsigned>(shape_.ldb);
  auto ldc = static_cast<unsigned>(shape_.ldc);
  void* parameters[] = {&b, &c, &n, &ldb, &ldc};  // the last three only with runtime sizes
  const CudaLaunchShape shape = shape_of(launch);
  begin_.record(stream_.handle());
  for (std::int64_t call = 0; call < calls; ++call) {
    function.launch(shape, stream_.handle(), parameters);
  }
  end_.record(stream_.handle());
  end_.synchronize();
  return end_.ms_since(begin_) * 1000 / static_cast<double>(calls);
}

}  // namespace spjit
