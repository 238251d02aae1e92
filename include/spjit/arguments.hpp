#pragma once

/// @file
/// Arguments of a kernel's run.

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "spjit/operand.hpp"

namespace spjit {

/// Values of A in the order in which one kernel reads them; Kernel::prepare_values() makes them.
/// Copies share them; any number of runs may use them at once.
class PreparedValues {
 public:
  /// Values in the form that a kernel reads.
  class Stream {
   public:
    explicit Stream(std::uint64_t kernel_id) : kernel_id_(kernel_id) {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    virtual ~Stream() = default;
    /// Identifies the one kernel in this process that reads them.
    [[nodiscard]] std::uint64_t kernel_id() const noexcept { return kernel_id_; }

   private:
    std::uint64_t kernel_id_;
  };

  PreparedValues() = default;
  explicit PreparedValues(std::shared_ptr<const Stream> stream) : stream_(std::move(stream)) {}
  /// Null: none were prepared.
  [[nodiscard]] const Stream* stream() const noexcept { return stream_.get(); }

 private:
  std::shared_ptr<const Stream> stream_;
};

/// The operands of a Problem, borrowed. C must overlap none of the others, but that the residual
/// may be C itself.
struct Arguments {
  static constexpr std::int64_t k_as_compiled = std::numeric_limits<std::int64_t>::min();

  ConstOperand b = {};             ///< `[k x n]`; host kernels take any layout, maybe slower
  Operand c = {};                  ///< `[m x n]`, the same; rows and tokens of C must not overlap
  std::int64_t n = k_as_compiled;  ///< columns of B and C; 0: nothing is computed
  /// Size of the images of a convolution whose n is a run-time size; 0: as compiled. It says what
  /// n is.
  std::int64_t height = 0;
  std::int64_t width = 0;

  const float* scale = nullptr;  ///< `[m]`, where the epilogue has it
  const float* bias = nullptr;   ///< `[m]`, where the epilogue has it
  /// `[m x n]`, where the epilogue has it; ld 0: C's. Its layout is C's: none other is taken.
  ConstOperand residual = {};

  /// The scale of B with Quantization::given, `[1]`, borrowed; any number.
  const float* b_scale = nullptr;
  std::int32_t b_zero_point = 0;  ///< as b_scale: the value of B's type that stands for 0

  /// The scale of a C of i8 or u8, `[1]`, borrowed: finite and above 0. Null: 1.
  const float* c_scale = nullptr;
  std::int32_t c_zero_point = 0;  ///< of such a C, and of its type

  /// A's values, where the problem leaves them to a run (Problem::runtime_values); borrowed.
  const PreparedValues* values = nullptr;

  /// Number of products with the same A, whose operands are a distance apart. The C matrices of a
  /// batch must not overlap; their rows or tokens may interleave.
  std::int64_t batch = 1;

  /// Memory that a run on the host works in and shares with no other: Kernel::workspace_bytes()
  /// bytes or more, at any address. Null: the memory that kernels of this process share (see
  /// Kernel).
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;

  void* stream = nullptr;  ///< of a launch on a GPU; null: the default stream
};

}  // namespace spjit
