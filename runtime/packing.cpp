#include "runtime/packing.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spjit {
namespace {

void pack_rows(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t width,
               float* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * width, from + row * ld, static_cast<std::size_t>(width) * sizeof(float));
  }
}

#if defined(__x86_64__)
// B's rows are far apart: the hardware prefetcher does not follow, so lines are asked for a few
// rows ahead.
constexpr std::int64_t k_prefetch_rows = 12;

__attribute__((target("avx512f"))) void pack_rows_avx512(const float* from, std::int64_t ld,
                                                         std::int64_t rows, std::int64_t width,
                                                         float* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < width; j += 16) {
      _mm_prefetch(reinterpret_cast<const char*>(from + k_prefetch_rows * ld + j), _MM_HINT_T0);
      _mm512_storeu_ps(to + j, _mm512_loadu_ps(from + j));
    }
    from += ld;
    to += width;
  }
}
#endif

void pack_full(const float* from, std::int64_t ld, std::int64_t rows, std::int64_t width,
               float* to) {
#if defined(__x86_64__)
  if (width % 16 == 0 && __builtin_cpu_supports("avx512f") != 0) {
    pack_rows_avx512(from, ld, rows, width, to);
    return;
  }
#endif
  pack_rows(from, ld, rows, width, to);
}

}  // namespace

void pack_panel(const PanelLayout& layout, std::int64_t panel, DenseSource source, float* to) {
  const std::int64_t first = panel * layout.width;
  const std::int64_t columns = std::min(layout.width, layout.n - first);
  const float* from = source.data + first;
  if (columns == layout.width) {
    pack_full(from, source.ld, layout.rows, layout.width, to);
    return;
  }
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    float* packed = to + row * layout.width;
    std::memcpy(packed, from + row * source.ld, static_cast<std::size_t>(columns) * sizeof(float));
    std::fill(packed + columns, packed + layout.width, 0.0F);
  }
}

}  // namespace spjit
