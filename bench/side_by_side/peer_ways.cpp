#include "bench/side_by_side/peer_ways.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit::side_by_side {
namespace {

constexpr std::int64_t k_some_tokens = 16;

template <class Way>
std::vector<std::string> texts_of(const std::vector<Way>& ways, const char* prefix = "") {
  std::vector<std::string> texts;
  texts.reserve(ways.size());
  for (const Way way : ways) texts.push_back(fmt::format("{}{}", prefix, to_string(way)));
  return texts;
}

}  // namespace

std::vector<BlasWay> dnnl_ways(std::int64_t n) {
  using enum BlasWay;
  if (n == 1) return {gemm};
  if (n <= k_some_tokens) return {gemm_of_tokens, gemm_of_weights, gemm};
  return {gemm};
}

std::string_view to_string(MklSparseWay way) noexcept {
  switch (way) {
    case MklSparseWay::vector:
      return "mkl_sparse_s_mv";
    case MklSparseWay::columns:
      return "mkl_sparse_s_mm";
    case MklSparseWay::tokens:
      return "mkl_sparse_s_mm of tokens";
  }
  return "";
}

std::vector<MklSparseWay> mkl_sparse_ways(std::int64_t n) {
  using enum MklSparseWay;
  if (n == 1) return {vector, columns};
  if (n <= k_some_tokens) return {columns, tokens};
  return {columns};
}

std::vector<std::string> ways_of(std::string_view peer, std::int64_t n) {
  const bool is_vector = n == 1;
  if (peer == "openblas") return texts_of(blas_ways(n, false));
  if (peer == "mkl-dense") return texts_of(blas_ways(n, true));
  if (peer == "onednn") {
    std::vector<std::string> ways = texts_of(dnnl_ways(n), "dnnl_");
    ways.emplace_back(k_dnnl_packed);
    return ways;
  }
  if (peer == "mkl-sparse") return texts_of(mkl_sparse_ways(n));
  if (peer == "spjit") return {"Kernel::run"};
  if (peer == "csr") return {"a loop over A"};
  if (peer == "eigen" || peer == "scipy") {
    return {is_vector ? "sparse matrix times vector" : "sparse matrix times matrix"};
  }
  if (peer == "libxsmm") return {"libxsmm_sfsspmdm_execute"};
  if (peer == "xnnpack") return {"convolution2d_nchw_f32"};
  if (peer == "onnxruntime") return {"MatMul of tokens, W constant and packed"};
  throw InvalidArgument(fmt::format("no peer '{}'", peer));
}

}  // namespace spjit::side_by_side
