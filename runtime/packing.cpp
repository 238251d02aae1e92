#include "runtime/packing.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spjit {
namespace {

/// Full panels: every row of each is `width` floats of the source.
struct FullPanels {
  const float* from = nullptr;
  std::int64_t ld = 0;
  float* to = nullptr;
  std::int64_t count = 0;
};

void pack_full(const PanelLayout& layout, const FullPanels& panels) {
  const auto bytes = static_cast<std::size_t>(layout.width) * sizeof(float);
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      std::memcpy(panels.to + panel * layout.stride() + row * layout.width,
                  panels.from + row * panels.ld + panel * layout.width, bytes);
    }
  }
}

#if defined(__x86_64__)
// Rows of B are far apart: the prefetcher finds the next one late, so it is asked for a few rows
// ahead.
constexpr std::int64_t k_prefetch_rows = 4;

__attribute__((target("avx512f"))) void pack_full_avx512(const PanelLayout& layout,
                                                         const FullPanels& panels) {
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    const float* from = panels.from + row * panels.ld;
    float* to = panels.to + row * layout.width;
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      for (std::int64_t j = 0; j < layout.width; j += 16) {
        _mm_prefetch(reinterpret_cast<const char*>(from + k_prefetch_rows * panels.ld + j),
                     _MM_HINT_T0);
        _mm512_storeu_ps(to + j, _mm512_loadu_ps(from + j));
      }
      from += layout.width;
      to += layout.stride();
    }
  }
}
#endif

void pack_full_fastest(const PanelLayout& layout, const FullPanels& panels) {
#if defined(__x86_64__)
  if (layout.width % 16 == 0 && __builtin_cpu_supports("avx512f") != 0) {
    pack_full_avx512(layout, panels);
    return;
  }
#endif
  pack_full(layout, panels);
}

}  // namespace

void pack_panels(const PanelLayout& layout, PanelRange panels, DenseSource source, float* to) {
  const std::int64_t full_end = std::min(panels.end, layout.n / layout.width);
  if (full_end > panels.begin) {
    pack_full_fastest(layout, {source.data + panels.begin * layout.width, source.ld, to,
                               full_end - panels.begin});
  }
  if (panels.end <= full_end) return;
  const std::int64_t first = full_end * layout.width;
  const std::int64_t columns = layout.n - first;
  float* last = to + (full_end - panels.begin) * layout.stride();
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    float* packed = last + row * layout.width;
    std::memcpy(packed, source.data + row * source.ld + first,
                static_cast<std::size_t>(columns) * sizeof(float));
    std::fill(packed + columns, packed + layout.width, 0.0F);
  }
}

}  // namespace spjit
