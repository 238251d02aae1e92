#include "kernels/timing_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "matrix/limits.hpp"
#include "plan/problem.hpp"

namespace spjit {
namespace {

WorkspaceSize floats_of(std::int64_t rows, std::int64_t stride) {
  const std::int64_t floats = checked_multiply(rows, stride, "floats of an operand");
  return {floats, floats};
}

/// Writes `value(i)` into each element; gaps between rows stay untouched. Calls `check`, if there
/// is one, now and then.
template <class Value>
void fill(float* to, const InputRows& shape, const std::function<void()>& check,
          const Value& value) {
  constexpr std::int64_t k_piece = std::int64_t{1} << 20;
  std::int64_t since_check = 0;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      to[row * shape.stride + j] = value(row * shape.columns + j);
    }
    since_check += shape.columns;
    if (!check || since_check < k_piece) continue;
    since_check = 0;
    check();
  }
}

/// Small exact values: the time of an FMA does not depend on them, but denormals or NaN would slow
/// some CPUs down.
float small_value(std::int64_t i) { return static_cast<float>(i % 17) * 0.125F - 1.0F; }

std::shared_ptr<CacheFlush> flush_for(ThreadPool* pool, std::int64_t most_bytes) {
  try {
    return std::make_shared<CacheFlush>(host_cpu(), pool, most_bytes);
  } catch (const std::bad_alloc&) {
    throw NoMemory("no memory for data that empties the caches");
  }
}

}  // namespace

TimingOperands::TimingOperands(const TimingShape& shape, std::int64_t between_bytes,
                               ThreadPool* pool, const std::function<void()>& check)
    : b_(workspaces_, floats_of(shape.cols, shape.ldb)),
      c_(workspaces_, floats_of(shape.rows, shape.ldc)) {
  const InputRows b{b_.data(), shape.cols, shape.n, shape.ldb};
  const InputRows c{c_.data(), shape.rows, shape.n, shape.ldc};
  fill(b_.data(), b, check, small_value);
  fill(c_.data(), c, check, [](std::int64_t) { return 0.0F; });
  if (between_bytes > 0) timer_ = CallTimer(flush_for(pool, between_bytes), b);
}

std::string too_large_to_time(const Problem& problem) {
  const double bytes = 4 * (as_double(problem.a->cols) * as_double(problem.ldb()) +
                            as_double(problem.a->rows) * as_double(problem.ldc()));
  if (bytes <= as_double(memory_bytes()) / 2) return {};
  return fmt::format("B and C would take {:.1f} GB, more than half of the memory", bytes * 1e-9);
}

}  // namespace spjit
