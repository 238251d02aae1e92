#pragma once

/// @file
/// The check of a kernel whose matrix is not there: it is read back from the kernel.

#include <cstdint>
#include <string>

#include "artifact/kernel_impl.hpp"
#include "base/cancel.hpp"
#include "spjit/data_type.hpp"
#include "spjit/matrix.hpp"
#include "spjit/verification.hpp"

namespace spjit {

/// A `[m x k]` as a host kernel multiplies by it: its products with the columns of the unit matrix,
/// without epilogue, layouts and image around them; of the family `reference`, which has no such
/// products, what it reads. Zeros that A stores are not told from those that it does not. Of values
/// at run time it has read_back_value() of each entry. Throws Error for an A with infinities or
/// NaN; NotSupported for a kernel that does not run here; what `cancel` throws.
[[nodiscard]] CsrMatrix read_back(const Kernel::Impl& kernel, const Cancellation& cancel = {});

/// Value that a kernel of run-time values gets for its i-th entry: a number that the type of A has,
/// different for neighbours.
[[nodiscard]] constexpr float read_back_value(std::int64_t i, DataType type = DataType::f32) {
  std::int64_t values = 1000;
  if (type == DataType::bf16) values = 256;
  if (type == DataType::u8) values = 255;
  if (type == DataType::i8) values = 127;
  if (type == DataType::i4) values = 7;
  return static_cast<float>(i % values + 1);
}

struct StoredVerdict {
  Verification verification;
  std::string problem;      ///< what is wrong with the kernel, or empty
  std::string not_checked;  ///< why it was not, "needs AVX-512"; or empty
  std::string note;         ///< what could not be compared, or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty() && not_checked.empty(); }
};

/// Reads A back, compares it with the hash of the weights that the kernel was compiled of, and
/// checks the kernel against float64 as a Compiler does (`mode` is not `none`). Not checked are
/// kernels of GPUs and those that this CPU cannot run. The kernel runs in this process. Throws what
/// `cancel` throws, and std::bad_alloc.
[[nodiscard]] StoredVerdict check_stored_kernel(const Kernel::Impl& kernel, VerifyMode mode,
                                                const Cancellation& cancel = {});

}  // namespace spjit
