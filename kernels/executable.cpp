#include "kernels/executable.hpp"

#include <atomic>

#include "spjit/error.hpp"

namespace spjit {

std::shared_ptr<const PreparedValues::Stream> Executable::prepare_values(
    std::span<const float> /*values*/) const {
  throw NotSupported("a kernel of this family has A's values in its code");
}

std::int64_t Executable::active_blocks() const {
  throw InvalidArgument("a kernel of the host has no blocks on an SM");
}

std::uint64_t Executable::next_id() noexcept {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace spjit
