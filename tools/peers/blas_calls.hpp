#pragma once

/// @file
/// How a BLAS is called for a dense product of n columns: its fast ways, of any library with the C
/// interface.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/peers/dense_call.hpp"

namespace spjit {

/// Functions of cblas.h, and of MKL's "packed" interface, which others lack: null.
struct BlasFunctions {
  using Sgemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                     const float* a, int lda, const float* b, int ldb, float beta, float* c,
                     int ldc);
  using Sgemv = void(int order, int transpose, int m, int n, float alpha, const float* a, int lda,
                     const float* x, int step_x, float beta, float* y, int step_y);
  using PackBytes = std::size_t(int which, int m, int n, int k);
  using Pack = void(int order, int which, int transpose, int m, int n, int k, float alpha,
                    const float* from, int ld, float* to);
  using Compute = void(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c,
                       int ldc);

  Sgemm* sgemm = nullptr;
  Sgemv* sgemv = nullptr;
  PackBytes* pack_bytes = nullptr;
  Pack* pack = nullptr;
  Compute* compute = nullptr;

  [[nodiscard]] bool packs() const noexcept { return compute != nullptr; }
};

enum class BlasWay : std::uint8_t {
  gemv,             ///< A times a vector
  gemv_a_token,     ///< the same for each column, which follow one another
  gemm,             ///< row-major B and C
  gemm_of_tokens,   ///< tokens times A, which it transposes
  gemm_of_weights,  ///< tokens times A that was transposed before
  packed,           ///< A packed before, row-major B and C
  packed_of_tokens  ///< tokens times A that was packed before
};

/// "sgemm of tokens, A transposed before"
[[nodiscard]] std::string_view to_string(BlasWay way) noexcept;

/// The ways that may be the fastest for n columns. bench/README.md says how libraries are called.
[[nodiscard]] std::vector<BlasWay> blas_ways(std::int64_t n, bool packs);

/// One way, of any n that it can do. A is borrowed, the functions too. Throws InvalidArgument for a
/// size over 2^31 - 1.
[[nodiscard]] DenseCall blas_call(const BlasFunctions& blas, BlasWay way,
                                  const DenseProblem& problem);

/// Those calls of a library, of an empty product sgemm alone. Throws as blas_call().
[[nodiscard]] std::vector<DenseCall> blas_calls(const BlasFunctions& blas,
                                                const DenseProblem& problem);

}  // namespace spjit
