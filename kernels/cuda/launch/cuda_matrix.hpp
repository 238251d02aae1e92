#pragma once

/// @file
/// A in the artifact of a CUDA kernel that reads it, and arrays in a GPU's memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "runtime/cuda/cuda_memory.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A: [rows + 1] row offsets of 64 bits, [nnz] columns of 32 and, unless a run brings them, [nnz]
/// values; little-endian.
inline constexpr const char* k_matrix_file = "kernel.matrix";

/// Throws what `cancel` throws soon after it is reached.
[[nodiscard]] std::vector<std::byte> write_cuda_matrix(const CsrMatrix& matrix, bool has_values,
                                                       const Cancellation& cancel);

/// The matrix of a program; its values are 0 where a run brings them. Throws Error unless the file
/// has its sizes, and offsets and ascending columns within them; what `cancel` throws.
[[nodiscard]] CsrMatrix read_cuda_matrix(std::span<const std::byte> file,
                                         const CudaProgram& program, const Cancellation& cancel);

/// An array on a device. Throws DeviceError.
template <class Element>
[[nodiscard]] DeviceBuffer device_array(const CudaContext& context,
                                        const std::vector<Element>& elements) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(elements));
  DeviceBuffer buffer(context, bytes.size());
  buffer.upload(bytes);
  return buffer;
}

}  // namespace spjit
