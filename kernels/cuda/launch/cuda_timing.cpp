#include "kernels/cuda/launch/cuda_timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/arithmetic.hpp"
#include "spjit/data_type.hpp"
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
std::size_t operand_bytes(Layout layout, std::int64_t rows, std::int64_t n, std::int64_t ld) {
  constexpr const char* k_what = "bytes of an operand";
  const bool has_tokens = layout == Layout::tokens_major;
  const std::int64_t product =
      checked_multiply(has_tokens ? n : rows, has_tokens ? std::max(ld, rows) : ld, k_what);
  const std::int64_t count = std::max<std::int64_t>(product, 1);
  return to_size(checked_multiply(count, bytes_of(DataType::f32), k_what));
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

}  // namespace

void fill_with_small_values(DeviceBuffer& buffer) {
  const std::vector<float> values = small_values();
  const std::span<const std::byte> part = std::as_bytes(std::span(values));
  for (std::size_t at = 0; at < buffer.bytes(); at += part.size()) {
    buffer.upload(part.first(std::min(part.size(), buffer.bytes() - at)), at);
  }
}

CudaTimingOperands::CudaTimingOperands(const CudaContext& context, const Problem& problem)
    : b_(context, operand_bytes(checked(problem).b.layout, problem.b_rows(), problem.b_columns(),
                                problem.ldb())),
      c_(context, operand_bytes(problem.c.layout, problem.a->rows, problem.n.value, problem.ldc())),
      epilogue_(context, problem.epilogue.residual
                             ? c_.bytes()
                             : operand_bytes(Layout::row_major, problem.a->rows, 1, 1)),
      stream_(context),
      begin_(context),
      end_(context) {
  fill_with_small_values(b_);
  c_.fill_on(stream_.handle(), std::byte{0});
  epilogue_.fill_on(stream_.handle(), std::byte{0});
  stream_.synchronize();
  const auto* const zeros = static_cast<const float*>(epilogue_.pointer());
  arguments_ = {.b = {static_cast<const float*>(b_.pointer()), {.ld = problem.ldb()}},
                .c = {static_cast<float*>(c_.pointer()), {.ld = problem.ldc()}},
                .n = problem.n.value,
                .height = problem.convolution ? problem.convolution->height : 0,
                .width = problem.convolution ? problem.convolution->width : 0,
                .scale = problem.epilogue.scale ? zeros : nullptr,
                .bias = problem.epilogue.bias ? zeros : nullptr,
                .residual = {problem.epilogue.residual ? zeros : nullptr, {.ld = problem.ldc()}},
                .stream = stream_.handle()};
}

double CudaTimingOperands::time_us(std::int64_t calls, const std::function<void()>& launch) {
  if (calls < 1) {
    throw InvalidArgument(fmt::format("timing {} launches; expected at least one", calls));
  }
  begin_.record(stream_.handle());
  for (std::int64_t call = 0; call < calls; ++call) launch();
  end_.record(stream_.handle());
  end_.synchronize();
  return end_.ms_since(begin_) * 1000 / static_cast<double>(calls);
}

}  // namespace spjit
