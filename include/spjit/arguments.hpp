#pragma once

/// @file
/// What a run of a kernel is given.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "spjit/layout.hpp"

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

  const float* b = nullptr;
  /// Floats between rows of B (tokens-major: between tokens, which may overlap); 0: those it was
  /// compiled for, or where n or the layout is another, as many as one has.
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;            ///< the same of C; rows and tokens of C must not overlap
  std::int64_t n = k_as_compiled;  ///< columns of B and C; 0: nothing is computed
  /// Size of the images of a convolution whose n is a run-time size; 0: as compiled. It says what
  /// n is.
  std::int64_t height = 0;
  std::int64_t width = 0;
  /// Layouts of B and C; default: as compiled. Host kernels take any, maybe slower.
  std::optional<Layout> b_layout = {};
  std::optional<Layout> c_layout = {};

  const float* scale = nullptr;     ///< [m], where the epilogue has it; so the next two
  const float* bias = nullptr;      ///< [m]
  const float* residual = nullptr;  ///< as C
  std::int64_t ldr = 0;             ///< of the residual as ldc; 0: ldc

  /// A's values, where the problem leaves them to a run (Problem::runtime_values); borrowed.
  const PreparedValues* values = nullptr;

  /// Number of products with the same A. B and C of one follow those of another at these distances
  /// in floats, which may be negative. The C matrices of a batch must not overlap; their rows or
  /// tokens may interleave.
  std::int64_t batch = 1;
  std::int64_t b_distance = 0;
  std::int64_t c_distance = 0;
  std::int64_t residual_distance = 0;

  /// Memory that a run on the host works in, of Kernel::workspace_bytes() bytes or more, for it
  /// alone, anywhere; null: what the kernels of this process share (see Kernel).
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;

  void* stream = nullptr;  ///< of a launch on a GPU; null: the default stream
};

}  // namespace spjit
