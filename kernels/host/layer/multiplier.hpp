#pragma once

/// @file
/// The products of a family of host kernels. LayerRun computes the rest of the layer around them.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernels/executable.hpp"
#include "kernels/host/layer/host_threads.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/arguments.hpp"

namespace spjit {

/// Groups of columns of which B and C stay in L2 while they are transposed, multiplied and
/// finished. MiniLM at 80 %, in sequence, a loop over A: 128 take 1.03 times as long, 256 and
/// 32 1.05 times.
struct ColumnGroups {
  std::int64_t columns = 64;   ///< in whole panels
  std::int64_t panel = 16;     ///< groups begin with one
  bool whole = false;          ///< and have at least one: the last panel reaches back
  std::int64_t of_batch = 64;  ///< of all of a batch that are computed together, at most
};

/// Immutable; all members are thread-safe.
class Multiplier {
 public:
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;
  virtual ~Multiplier() = default;

  [[nodiscard]] const HostThreads& threads() const noexcept { return threads_; }

  /// Computes C = A * B with the pool's threads.
  virtual void multiply(const Product& product) const = 0;

  /// The workspace that multiply() borrows for such a product, wherever B and C are.
  /// `product.serial` counts.
  [[nodiscard]] virtual WorkspaceNeed workspace_need(const Product& product) const {
    static_cast<void>(product);
    return {};
  }

  /// Whether multiply() takes a tokens-major B: the family copies B anyway.
  [[nodiscard]] virtual bool takes_tokens() const noexcept { return false; }

  /// Whether multiply() takes a B in runs of columns: the family copies B anyway.
  [[nodiscard]] virtual bool takes_runs() const noexcept { return false; }

  /// How columns are divided where there is more to do than to multiply.
  /// `in_place`: sums are where C is.
  [[nodiscard]] virtual ColumnGroups column_groups(bool in_place) const noexcept {
    return {in_place ? std::int64_t{256} : std::int64_t{64}};
  }

  /// A kernel that computes so few columns faster, with prepared values of its own in `arguments`;
  /// null: nothing does, and they are as they were.
  [[nodiscard]] virtual const Executable* suited_to_few(Arguments& arguments) const {
    static_cast<void>(arguments);
    return nullptr;
  }

  /// Executable::prepare_values() of the kernel with that id.
  [[nodiscard]] virtual std::shared_ptr<const PreparedValues::Stream> prepare_values(
      std::uint64_t kernel, std::span<const float> values) const = 0;

 protected:
  explicit Multiplier(HostThreads threads) : threads_(std::move(threads)) {}

 private:
  HostThreads threads_;
};

}  // namespace spjit
