#include "kernels/workspace_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/arithmetic.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

/// From here on a workspace of which a run touches less than half is mapped sparsely.
constexpr std::int64_t k_sparse_floats = std::int64_t{1} << 28;

FloatBuffer workspace_of(const WorkspaceSize& wanted) {
  try {
    // Pages are promised before they are there: who takes more than there is gets killed.
    constexpr auto k_float_bytes = static_cast<std::int64_t>(sizeof(float));
    if (wanted.touched > memory_bytes() / k_float_bytes) throw std::bad_alloc();
    if (wanted.floats < k_sparse_floats || wanted.touched > wanted.floats / 2) {
      return FloatBuffer(to_size(wanted.floats));
    }
    return FloatBuffer::sparse(to_size(wanted.floats));
  } catch (const std::bad_alloc&) {
    throw NoMemory(
        fmt::format("a run needs a workspace of {:.2f} GB, and addresses for {:.2f} GB: more than "
                    "there are; use fewer columns, or B with the leading dimension that the kernel "
                    "was compiled for",
                    4e-9 * as_double(wanted.touched), 4e-9 * as_double(wanted.floats)));
  }
}

}  // namespace

WorkspacePool::Loan::Loan(const WorkspacePool& pool, const WorkspaceSize& wanted) : pool_(pool) {
  if (wanted.floats == 0) return;
  const std::size_t size = to_size(wanted.floats);
  {
    const std::lock_guard lock(pool.mutex_);
    const auto fit = std::ranges::find_if(
        pool.idle_, [size](const FloatBuffer& buffer) { return buffer.size() >= size; });
    if (fit != pool.idle_.end()) {
      buffer_ = std::move(*fit);
      pool.idle_.erase(fit);
      return;
    }
  }
  buffer_ = workspace_of(wanted);
}

WorkspacePool::Loan::~Loan() {
  if (buffer_.data() == nullptr) return;
  const std::lock_guard lock(pool_.mutex_);
  try {
    pool_.idle_.push_back(std::move(buffer_));
  } catch (const std::bad_alloc&) {  // then it is freed
  }
}

}  // namespace spjit
