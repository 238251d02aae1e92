#pragma once

/// @file
/// The base of families of CUDA kernels that read A. Their code is one text for all matrices, and
/// their artifact is that code and A.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/refusal.hpp"
#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/cuda_family.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "runtime/cuda/cuda_module.hpp"

namespace spjit {

struct ReadingChoice;

/// Elements between rows of B or C at most: a parameter of 32 bits.
inline constexpr std::int64_t k_most_reading_distance = 0xFFFF'FFFF;

/// Code that reads A, and what there is to know about it.
struct ReadingCode {
  CudaCode::Texts texts;
  std::vector<std::string> kernels =
      {};                    ///< that it has; the first is the one that most launches take
  std::int64_t threads = 0;  ///< a block
};

/// Fills in what a problem for a device says of any program. Throws InvalidArgument for A without
/// rows.
void fill_in(CudaProgram& program, const FamilyRequest& request);

/// Whether kernels that read A take such distances of B or C.
[[nodiscard]] Refusal distance_refusal(const Problem& problem);

/// A family for k_few_cuda_columns takes no more.
[[nodiscard]] Refusal many_columns_refusal(const Problem& problem);

/// A policy that names a tile of unrolled code is for no other family.
[[nodiscard]] Refusal tile_refusal(const SearchPolicy& policy);

/// Whether distances of B or C leave a multiplication of 32 bits for addresses: 2^30 elements or
/// more.
[[nodiscard]] bool is_far(const CudaProgram& program) noexcept;

/// Families whose artifact is code of the layer, and A.
class ReadingCudaFamily : public CudaFamily {
 public:
  /// Code that is found or compiled, with A. Throws NotSupported without the libraries or for an
  /// arch they do not know, CompileFailed, what the request's context throws, CompileCancelled
  /// after `compile_limit_ms`.
  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const final;
  /// Compiles nothing.
  [[nodiscard]] BuiltKernel explain(const BuildRequest& request) const final;

  /// For a request that it accepts.
  [[nodiscard]] virtual ReadingCode code(const FamilyRequest& request) const = 0;
  [[nodiscard]] virtual ReadingChoice choice(const FamilyRequest& request) const = 0;
};

/// Elements side by side that vector accesses to B, to C and to a residual may have; 0: none.
struct VectorUse {
  std::int64_t of_b;
  std::int64_t of_c;
};
/// The largest of 4, 2 and 1 by which these, pointers and distances can be divided, in elements.
[[nodiscard]] std::int64_t vector_width(const Arguments& arguments, VectorUse use) noexcept;

/// Which of some widths, widest first and the last of them 1, a launch takes.
[[nodiscard]] std::size_t place_of_width(std::span<const std::int64_t> widths,
                                         const Arguments& arguments, VectorUse use) noexcept;

/// The kernels of some widths.
[[nodiscard]] std::vector<std::string> kernel_names(std::span<const std::int64_t> widths,
                                                    std::string (*name_of)(std::int64_t width));
/// The kernels of these names, with their code on the device. Throws DeviceError.
[[nodiscard]] std::vector<CudaFunction> load_functions(const CudaModule& module,
                                                       std::span<const std::int64_t> widths,
                                                       std::string (*name_of)(std::int64_t width));

/// Elements between rows or tokens of a launch: 2^30 and more are for code that is far.
[[nodiscard]] constexpr std::int64_t most_reading_distance(bool is_far) noexcept {
  return is_far ? k_most_reading_distance : k_cuda_max_leading_dimension;
}

}  // namespace spjit
