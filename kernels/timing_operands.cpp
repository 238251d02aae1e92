#include "kernels/timing_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

WorkspaceSize floats_of(std::int64_t rows, std::int64_t stride) {
  const std::int64_t floats = checked_multiply(rows, stride, "floats of an operand");
  return {floats, floats};
}

/// Writes `value(i)` into each float; calls `check`, if there is one, now and then.
template <class Value>
void fill(std::span<float> to, const std::function<void()>& check, const Value& value) {
  constexpr std::size_t k_piece = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < to.size(); begin += k_piece) {
    if (check) check();
    const std::size_t end = std::min(to.size(), begin + k_piece);
    for (std::size_t i = begin; i < end; ++i) to[i] = value(i);
  }
}

/// Small exact values: the time of an FMA does not depend on them, but denormals or NaN would slow
/// some CPUs down.
float small_value(std::size_t i) { return static_cast<float>(i % 17) * 0.125F - 1.0F; }

std::shared_ptr<CacheFlush> flush_for(ThreadPool* pool) {
  try {
    return std::make_shared<CacheFlush>(host_cpu(), pool);
  } catch (const std::bad_alloc&) {
    throw NoMemory("no memory for data that empties the caches");
  }
}

}  // namespace

TimingOperands::TimingOperands(const TimingShape& shape, bool hot, ThreadPool* pool,
                               const std::function<void()>& check)
    : b_(pool_, floats_of(shape.cols, shape.ldb)), c_(pool_, floats_of(shape.rows, shape.ldc)) {
  const std::span b(b_.data(), to_size(shape.cols * shape.ldb));
  fill(b, check, small_value);
  fill(std::span(c_.data(), to_size(shape.rows * shape.ldc)), check,
       [](std::size_t) { return 0.0F; });
  if (!hot) timer_ = CallTimer(flush_for(pool), b);
}

std::string too_large_to_time(const Problem& problem) {
  const double bytes = 4 * (as_double(problem.a->cols) * as_double(problem.ldb()) +
                            as_double(problem.a->rows) * as_double(problem.ldc()));
  if (bytes <= as_double(memory_bytes()) / 2) return {};
  return fmt::format("B and C would take {:.1f} GB, more than half of the memory", bytes * 1e-9);
}

}  // namespace spjit
