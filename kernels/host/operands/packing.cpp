#include "kernels/host/operands/packing.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spjit {
namespace {

/// Full panels: every row of each is `width` floats of the source.
struct FullPanels {
  DenseSource from = {};
  float* to = nullptr;
  std::int64_t count = 0;
};

void pack_full(const PanelLayout& layout, RowRange rows, const FullPanels& panels) {
  const auto bytes = static_cast<std::size_t>(layout.width) * sizeof(float);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      std::memcpy(panels.to + panel * layout.stride() + row * layout.width,
                  panels.from.row(row) + panel * layout.width, bytes);
    }
  }
}

#if defined(__x86_64__)
// Rows of B are far apart: the prefetcher finds the next one late, so it is asked for a few rows
// ahead.
constexpr std::int64_t k_prefetch_rows = 4;

__attribute__((target("avx512f"))) void pack_full_avx512(const PanelLayout& layout, RowRange rows,
                                                         const FullPanels& panels) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* from = panels.from.row(row);
    const float* ahead = panels.from.row(std::min(row + k_prefetch_rows, rows.end - 1));
    float* to = panels.to + row * layout.width;
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      for (std::int64_t j = 0; j < layout.width; j += 16) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead + j), _MM_HINT_T0);
        _mm512_storeu_ps(to + j, _mm512_loadu_ps(from + j));
      }
      from += layout.width;
      ahead += layout.width;
      to += layout.stride();
    }
  }
}
#endif

void pack_full_fastest(const PanelLayout& layout, RowRange rows, const FullPanels& panels) {
#if defined(__x86_64__)
  if (layout.width % 16 == 0 && __builtin_cpu_supports("avx512f") != 0) {
    pack_full_avx512(layout, rows, panels);
    return;
  }
#endif
  pack_full(layout, rows, panels);
}

/// The last panel, of which n fills the first columns.
void pack_last(const PanelLayout& layout, RowRange rows, DenseSource source, float* to) {
  const std::int64_t first = layout.n / layout.width * layout.width;
  const std::int64_t columns = layout.n - first;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* packed = to + row * layout.width;
    std::memcpy(packed, source.row(row) + first, static_cast<std::size_t>(columns) * sizeof(float));
    std::fill(packed + columns, packed + layout.width, 0.0F);
  }
}

}  // namespace

void pack_panels(const PanelLayout& layout, PanelRange panels, DenseSource source,
                 std::span<const RowRange> rows, float* to) {
  const std::int64_t full_end = std::min(panels.end, layout.n / layout.width);
  const std::int64_t full = std::max<std::int64_t>(full_end - panels.begin, 0);
  for (const RowRange& some : rows) {
    if (full > 0) {
      pack_full_fastest(layout, some, {source.from(0, panels.begin * layout.width), to, full});
    }
    if (panels.end > full_end) pack_last(layout, some, source, to + full * layout.stride());
  }
}

}  // namespace spjit
