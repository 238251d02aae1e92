#pragma once

/// @file
/// How each library is called for n columns: the ways that may be its fastest. Where there are
/// several, each is tried when a product is prepared, and the fastest taken; Runnable::detail()
/// says which it was.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/peers/blas_calls.hpp"

namespace spjit::side_by_side {

/// Of dnnl_sgemm, which goes to its own sgemv for n = 1.
[[nodiscard]] std::vector<BlasWay> dnnl_ways(std::int64_t n);

/// Of oneDNN 3: its primitive for products with weights that were reordered before, of any n.
inline constexpr std::string_view k_dnnl_packed = "dnnl_matmul of tokens, A packed before";

/// Of MKL's inspector-executor routines.
enum class MklSparseWay : std::uint8_t {
  vector,   ///< mkl_sparse_s_mv
  columns,  ///< mkl_sparse_s_mm, row-major B and C
  tokens,   ///< the same, column-major: a column follows another
};
[[nodiscard]] std::string_view to_string(MklSparseWay way) noexcept;
[[nodiscard]] std::vector<MklSparseWay> mkl_sparse_ways(std::int64_t n);

/// Of any peer on the host, as text. Throws InvalidArgument for an unknown one.
[[nodiscard]] std::vector<std::string> ways_of(std::string_view peer, std::int64_t n);

}  // namespace spjit::side_by_side
