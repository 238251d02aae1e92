#include "tools/peers/blas_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "base/arithmetic.hpp"
#include "base/float_buffer.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// From cblas.h and mkl_cblas.h: the C interface is the same in every BLAS.
constexpr int k_row_major = 101;
constexpr int k_plain = 111;
constexpr int k_transposed = 112;
constexpr int k_is_packed = 151;
constexpr int k_pack_a = 161;
constexpr int k_pack_b = 162;

int size_of(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw InvalidArgument(
        fmt::format("a dense matrix with a side of {}: BLAS takes 2^31 - 1 at most", size));
  }
  return static_cast<int>(size);
}

/// Sizes as BLAS has them, and A.
struct Sizes {
  explicit Sizes(const DenseProblem& problem)
      : m(size_of(problem.m)), n(size_of(problem.n)), k(size_of(problem.k)), a(problem.a) {}

  int m;
  int n;
  int k;
  const float* a;
  // Leading dimensions must be 1 at least even where there is nothing to read.
  [[nodiscard]] int ld_of_m() const { return std::max(1, m); }
  [[nodiscard]] int ld_of_n() const { return std::max(1, n); }
  [[nodiscard]] int ld_of_k() const { return std::max(1, k); }
};

using Run = std::function<void(const float* b, float* c)>;

Run packed(const BlasFunctions& blas, const Sizes& of) {
  const auto a = std::make_shared<FloatBuffer>(
      blas.pack_bytes(k_pack_a, of.m, of.n, of.k) / sizeof(float) + 1);
  blas.pack(k_row_major, k_pack_a, k_plain, of.m, of.n, of.k, 1.0F, of.a, of.ld_of_k(), a->data());
  return [&blas, of, a](const float* b, float* c) {
    blas.compute(k_row_major, k_is_packed, k_plain, of.m, of.n, of.k, a->data(), of.ld_of_k(), b,
                 of.ld_of_n(), 0.0F, c, of.ld_of_n());
  };
}

Run packed_of_tokens(const BlasFunctions& blas, const Sizes& of) {
  const auto a = std::make_shared<FloatBuffer>(
      blas.pack_bytes(k_pack_b, of.n, of.m, of.k) / sizeof(float) + 1);
  blas.pack(k_row_major, k_pack_b, k_transposed, of.n, of.m, of.k, 1.0F, of.a, of.ld_of_k(),
            a->data());
  return [&blas, of, a](const float* b, float* c) {
    blas.compute(k_row_major, k_plain, k_is_packed, of.n, of.m, of.k, b, of.ld_of_k(), a->data(),
                 of.ld_of_k(), 0.0F, c, of.ld_of_m());
  };
}

Run gemm_of_weights(const BlasFunctions& blas, const Sizes& of) {
  const auto weights =
      std::make_shared<const FloatBuffer>(transposed_weights({of.m, of.k, of.n, of.a}));
  return [&blas, of, weights](const float* b, float* c) {
    blas.sgemm(k_row_major, k_plain, k_plain, of.n, of.m, of.k, 1.0F, b, of.ld_of_k(),
               weights->data(), of.ld_of_m(), 0.0F, c, of.ld_of_m());
  };
}

Run run_of(BlasWay way, const BlasFunctions& blas, const Sizes& of) {
  switch (way) {
    case BlasWay::gemv:
    case BlasWay::gemv_a_token:
      return [&blas, of](const float* b, float* c) {
        for (std::int64_t token = 0; token < of.n; ++token) {
          blas.sgemv(k_row_major, k_plain, of.m, of.k, 1.0F, of.a, of.ld_of_k(), b + token * of.k,
                     1, 0.0F, c + token * of.m, 1);
        }
      };
    case BlasWay::gemm_of_tokens:
      return [&blas, of](const float* b, float* c) {
        blas.sgemm(k_row_major, k_plain, k_transposed, of.n, of.m, of.k, 1.0F, b, of.ld_of_k(),
                   of.a, of.ld_of_k(), 0.0F, c, of.ld_of_m());
      };
    case BlasWay::gemm_of_weights:
      return gemm_of_weights(blas, of);
    case BlasWay::packed:
      return packed(blas, of);
    case BlasWay::packed_of_tokens:
      return packed_of_tokens(blas, of);
    case BlasWay::gemm:
      break;
  }
  return [&blas, of](const float* b, float* c) {
    blas.sgemm(k_row_major, k_plain, k_plain, of.m, of.n, of.k, 1.0F, of.a, of.ld_of_k(), b,
               of.ld_of_n(), 0.0F, c, of.ld_of_n());
  };
}

bool has_tokens(BlasWay way) {
  return way == BlasWay::gemv_a_token || way == BlasWay::gemm_of_tokens ||
         way == BlasWay::gemm_of_weights || way == BlasWay::packed_of_tokens;
}

}  // namespace

std::string_view to_string(BlasWay way) noexcept {
  switch (way) {
    case BlasWay::gemv:
      return "sgemv";
    case BlasWay::gemv_a_token:
      return "sgemv a token";
    case BlasWay::gemm:
      return "sgemm";
    case BlasWay::gemm_of_tokens:
      return "sgemm of tokens";
    case BlasWay::gemm_of_weights:
      return "sgemm of tokens, A transposed before";
    case BlasWay::packed:
      return "sgemm, A packed before";
    case BlasWay::packed_of_tokens:
      return "sgemm of tokens, A packed before";
  }
  return "";
}

std::vector<BlasWay> blas_ways(std::int64_t n, bool packs) {
  using enum BlasWay;
  constexpr std::int64_t k_few_tokens = 4;    // as often as that a matrix is read again
  constexpr std::int64_t k_some_tokens = 16;  // of which a row fills no vector, or one
  std::vector<BlasWay> ways;
  if (n == 1) {
    ways = {gemv, gemm, gemm_of_weights};
  } else if (n <= k_few_tokens) {
    ways = {gemv_a_token, gemm_of_tokens, gemm_of_weights, gemm};
  } else if (n <= k_some_tokens) {
    ways = {gemm, gemm_of_weights};
  } else {
    ways = {gemm};
  }
  if (packs) ways.push_back(packed);
  if (packs && n > 1) ways.push_back(packed_of_tokens);
  return ways;
}

DenseCall blas_call(const BlasFunctions& blas, BlasWay way, const DenseProblem& problem) {
  return {std::string(to_string(way)), has_tokens(way), run_of(way, blas, Sizes(problem))};
}

std::vector<DenseCall> blas_calls(const BlasFunctions& blas, const DenseProblem& problem) {
  // sgemv leaves C as it is where there is nothing to add, and nothing can be packed.
  const bool is_empty = problem.m == 0 || problem.k == 0 || problem.n == 0;
  if (is_empty) return {blas_call(blas, BlasWay::gemm, problem)};
  std::vector<DenseCall> calls;
  for (const BlasWay way : blas_ways(problem.n, blas.packs())) {
    calls.push_back(blas_call(blas, way, problem));
  }
  return calls;
}

}  // namespace spjit
