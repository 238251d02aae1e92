#include "kernels/host/windows/windows_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/vector_memory.hpp"
#include "kernels/dense_bits.hpp"
#include "kernels/host/operands/magnitude.hpp"
#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

/// In a place: AVX-512: there is an entry. AVX2: it is in the second half of the window.
constexpr std::uint8_t k_marked = 0x80;

// Of a part, for one column: about a microsecond. Two threads instead of one cost half of that.
constexpr std::int64_t k_least_steps_a_part = 1000;

/// How far ahead of their use values of A are asked for [bytes].
constexpr std::ptrdiff_t k_windows_ahead = 4096;

/// Where a run is, without bounds.
struct StepStream {
  const std::uint16_t* starts = nullptr;
  const std::uint8_t* places = nullptr;
  const std::byte* values = nullptr;
  // Where groups of columns have scales:
  std::int64_t column_groups = 0;
  const ScaledSteps* scaled = nullptr;
  const float* scales = nullptr;
  // Where slots are packed, in the array of places:
  const std::uint8_t* near_starts = nullptr;  ///< columns from a group's first
  std::int64_t near_columns = 0;              ///< of a group
};

using RunPairs = void (*)(const StepStream&, std::span<const GroupPair>, const std::int32_t*,
                          const WindowOperands&, std::int64_t stride);

/// For 1, 2, ... columns of B.
using KernelsOfColumns = std::array<RunPairs, to_size(k_most_window_columns)>;

/// Asks for a line of values, which need not be there.
__attribute__((always_inline)) inline void fetch_line(const void* values) {
  _mm_prefetch(static_cast<const char*>(values) + k_windows_ahead, _MM_HINT_T0);
}

namespace windows_avx512 {
#define SPJIT_WINDOWS_TARGET SPJIT_AVX512_TARGET
#define SPJIT_WINDOWS_INLINE SPJIT_AVX512_INLINE

struct Windows {
  using Vector = __m512;
  struct Places {
    __m512i of_window;
    __mmask16 entries;
  };
  static constexpr std::int64_t k_lanes = 16;
  static constexpr std::int64_t k_align = 16;

  SPJIT_WINDOWS_INLINE static Vector zero() { return _mm512_setzero_ps(); }
  /// A step's values.
  template <HeldType Type>
  SPJIT_WINDOWS_INLINE static Vector load(const std::byte* from) {
    const auto* const half = reinterpret_cast<const __m256i*>(from);
    const auto* const quarter = reinterpret_cast<const __m128i*>(from);
    switch (Type) {
      case HeldType::bf16:
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256(half)), 16));
      case HeldType::f16:
        return _mm512_cvtph_ps(_mm256_load_si256(half));
      case HeldType::i8:
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128(quarter)));
      default:
        return _mm512_load_ps(from);
    }
  }
  SPJIT_WINDOWS_INLINE static Vector load_floats(const float* from) { return _mm512_load_ps(from); }
  SPJIT_WINDOWS_INLINE static Vector multiply_add(Vector left, Vector right, Vector sum) {
    return _mm512_fmadd_ps(left, right, sum);
  }
  SPJIT_WINDOWS_INLINE static void store(float* to, Vector value) { _mm512_store_ps(to, value); }
  SPJIT_WINDOWS_INLINE static Places places(const std::uint8_t* of_step) {
    const __m512i wide = _mm512_maskz_cvtepi8_epi32(
        0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(of_step)));
    return {wide, _mm512_movepi32_mask(wide)};  // the sign is the mark
  }
  /// Of the places, vpermt2ps takes the low five bits.
  SPJIT_WINDOWS_INLINE static Vector add(Vector values, const float* window, const Places& places,
                                         Vector sums) {
    const __m512 b = _mm512_permutex2var_ps(_mm512_load_ps(window), places.of_window,
                                            _mm512_load_ps(window + 16));
    return _mm512_mask3_fmadd_ps(b, values, sums, places.entries);
  }
  struct Slots {
    Vector values;
    Places places;
  };
  /// Of packed slots. A value that is not 0 is an entry.
  SPJIT_WINDOWS_INLINE static Slots slots(const std::uint8_t* of_step) {
    const __m512i wide = _mm512_maskz_cvtepi8_epi32(
        0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(of_step)));
    return {_mm512_cvtepi32_ps(_mm512_srai_epi32(wide, 4)),
            {wide, _mm512_test_epi32_mask(wide, _mm512_set1_epi32(0xF0))}};
  }
  /// Of a place, vpermps takes the low four bits.
  SPJIT_WINDOWS_INLINE static Vector add(const Slots& slots, const float* window, Vector sums) {
    const __m512 b = _mm512_permutexvar_ps(slots.places.of_window, _mm512_loadu_ps(window));
    return _mm512_mask3_fmadd_ps(b, slots.values, sums, slots.places.entries);
  }
  /// Of two steps.
  template <HeldType Type>
  SPJIT_WINDOWS_INLINE static void fetch_ahead(const StepStream& at) {
    constexpr std::int64_t k_step_bytes = k_lanes * bytes_of(Type);
    constexpr std::int64_t k_line_bytes = 64;
    fetch_line(at.values);
    if constexpr (k_step_bytes == k_line_bytes) fetch_line(at.values + k_step_bytes);
  }
};

#include "kernels/host/windows/windows_rows.inc"

constexpr auto k_kernels = kernels_of_types();
constexpr auto k_scaled_kernels = kernels_of_slots();

#undef SPJIT_WINDOWS_TARGET
#undef SPJIT_WINDOWS_INLINE
}  // namespace windows_avx512

namespace windows_avx2 {
#define SPJIT_WINDOWS_TARGET SPJIT_AVX2_TARGET
#define SPJIT_WINDOWS_INLINE SPJIT_AVX2_INLINE

struct Windows {
  using Vector = __m256;
  using Places = __m256i;
  static constexpr std::int64_t k_lanes = 8;
  static constexpr std::int64_t k_align = 1;

  SPJIT_WINDOWS_INLINE static Vector zero() { return _mm256_setzero_ps(); }
  /// A step's values.
  template <HeldType Type>
  SPJIT_WINDOWS_INLINE static Vector load(const std::byte* from) {
    const auto* const half = reinterpret_cast<const __m128i*>(from);
    switch (Type) {
      case HeldType::bf16:
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_load_si128(half)), 16));
      case HeldType::f16:
        return _mm256_cvtph_ps(_mm_load_si128(half));
      case HeldType::i8:
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(half)));
      default:
        return _mm256_load_ps(reinterpret_cast<const float*>(from));
    }
  }
  SPJIT_WINDOWS_INLINE static Vector load_floats(const float* from) { return _mm256_load_ps(from); }
  SPJIT_WINDOWS_INLINE static Vector multiply_add(Vector left, Vector right, Vector sum) {
    return _mm256_fmadd_ps(left, right, sum);
  }
  SPJIT_WINDOWS_INLINE static void store(float* to, Vector value) { _mm256_store_ps(to, value); }
  SPJIT_WINDOWS_INLINE static Places places(const std::uint8_t* of_step) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(of_step)));
  }
  /// Of the places, vpermps takes the low three bits, vblendvps the sign.
  SPJIT_WINDOWS_INLINE static Vector add(Vector values, const float* window, Places places,
                                         Vector sums) {
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(window), places);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(window + 8), places);
    return _mm256_fmadd_ps(values, _mm256_blendv_ps(low, high, _mm256_castsi256_ps(places)), sums);
  }
  struct Slots {
    Vector values;
    Places places;
    Places halves;
  };
  /// Of packed slots: the fourth bit of a place is the half of the window.
  SPJIT_WINDOWS_INLINE static Slots slots(const std::uint8_t* of_step) {
    const __m256i wide = places(of_step);
    return {_mm256_cvtepi32_ps(_mm256_srai_epi32(wide, 4)), wide, _mm256_slli_epi32(wide, 28)};
  }
  SPJIT_WINDOWS_INLINE static Vector add(const Slots& slots, const float* window, Vector sums) {
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(window), slots.places);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(window + 8), slots.places);
    const __m256 b = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(slots.halves));
    return _mm256_fmadd_ps(slots.values, b, sums);
  }
  /// Of two steps.
  template <HeldType>
  SPJIT_WINDOWS_INLINE static void fetch_ahead(const StepStream& at) {
    fetch_line(at.values);
  }
};

#include "kernels/host/windows/windows_rows.inc"

constexpr auto k_kernels = kernels_of_types();
constexpr auto k_scaled_kernels = kernels_of_slots();

#undef SPJIT_WINDOWS_TARGET
#undef SPJIT_WINDOWS_INLINE
}  // namespace windows_avx2

RunPairs kernel_of(HostIsa isa, HeldType held, std::int64_t n) {
  const auto& of_types =
      isa == HostIsa::avx512 ? windows_avx512::k_kernels : windows_avx2::k_kernels;
  return of_types[static_cast<std::size_t>(held)][to_size(n - 1)];
}

/// Values are held as i8, or packed.
RunPairs scaled_kernel_of(HostIsa isa, WindowSlots slots, std::int64_t n) {
  const auto& of_slots =
      isa == HostIsa::avx512 ? windows_avx512::k_scaled_kernels : windows_avx2::k_scaled_kernels;
  return of_slots[static_cast<std::size_t>(slots)][to_size(n - 1)];
}

/// A slot as the loop takes it.
std::uint8_t packed_slot(std::uint8_t place, float value) {
  constexpr int k_place_bits = 4;
  if (place == WindowSteps::k_no_place) return 0;
  const auto bits = static_cast<unsigned>(static_cast<int>(value));
  return static_cast<std::uint8_t>(bits << k_place_bits | place);
}

/// Whether a byte can hold each entry: 0 is none.
bool can_pack(const CsrView& matrix) {
  return matrix.cols <= window_shape(HostIsa::avx512, WindowSlots::packed).most_cols() &&
         std::ranges::none_of(matrix.values, [](float value) { return value == 0; });
}

/// A place as the loop takes it.
std::uint8_t place_for(HostIsa isa, std::uint8_t place) {
  constexpr std::uint8_t k_half = 8;
  if (place == WindowSteps::k_no_place) return 0;
  if (isa == HostIsa::avx512) return static_cast<std::uint8_t>(k_marked | place);
  return place < k_half ? place : static_cast<std::uint8_t>(k_marked | (place - k_half));
}

/// B without padding between its rows: a distance known here lets several rows be copied at once.
template <std::int64_t Columns>
void copy_rows(const float* b, std::int64_t rows, float* columns, std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < Columns; ++j) columns[j * stride + row] = b[row * Columns + j];
  }
}

using CopyRows = void (*)(const float*, std::int64_t, float*, std::int64_t);

template <std::size_t... I>
constexpr std::array<CopyRows, sizeof...(I)> copies(std::index_sequence<I...> /*columns*/) {
  return {copy_rows<I + 1>...};
}

constexpr auto k_copies = copies(std::make_index_sequence<to_size(k_most_window_columns)>());

}  // namespace

WindowsMatrix::WindowsMatrix(const CsrView& matrix, HostIsa isa, HeldType held,
                             const Cancellation& cancel, WindowSlots slots)
    : isa_(isa),
      held_(held),
      cols_(matrix.cols),
      slots_(slots == WindowSlots::packed && can_pack(matrix) ? slots : WindowSlots::apart),
      group_columns_(matrix.groups.columns),
      column_groups_(matrix.groups.count(matrix.cols)),
      steps_(make_window_steps(matrix, window_shape(isa, slots_), cancel)) {
  if (column_groups_ > 0) scales_ = arrange_scales(matrix);
  if (slots_ == WindowSlots::packed) {
    pack(matrix.values);
    return;
  }
  for (std::uint8_t& place : steps_.places) place = place_for(isa, place);
  if (!matrix.has_values()) return;
  values_ = arrange(steps_.entries, matrix.values);
  free_memory(steps_.entries);
}

void WindowsMatrix::pack(std::span<const float> values) {
  for (std::size_t i = 0; i < steps_.entries.size(); ++i) {
    const std::int64_t entry = steps_.entries[i];
    steps_.places[i] = packed_slot(steps_.places[i], entry < 0 ? 0 : values[to_size(entry)]);
  }
  free_memory(steps_.entries);
  values_.least_b = least_b_for(least_magnitude(values));
  near_starts_.reserve(steps_.starts.size());
  for (std::size_t i = 0; i < steps_.scaled.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) % column_groups_ * group_columns_;
    for (int left = steps_.scaled[i].all(); left > 0; --left) {
      const std::int64_t start = steps_.starts[near_starts_.size()] - first;
      near_starts_.push_back(static_cast<std::uint8_t>(start));  // below 128
    }
  }
  free_memory(steps_.starts);
}

FloatBuffer WindowsMatrix::arrange_scales(const CsrView& matrix) const {
  const std::int64_t lanes = steps_.shape.lanes;
  FloatBuffer scales(to_size(scales_before(pairs())));
  float* to = scales.data();
  for (std::int64_t pair = 0; pair < pairs(); ++pair) {
    const std::int32_t* const rows = steps_.rows.data() + pair * 2 * lanes;
    for (std::int64_t group = 0; group < column_groups_; ++group) {
      for (std::int64_t lane = 0; lane < 2 * lanes; ++lane) {
        const std::int32_t row = rows[lane];
        *to++ = row < 0 ? 0 : matrix.groups.of_row(matrix.cols, row)[to_size(group)];
      }
    }
  }
  return scales;
}

std::int64_t WindowsMatrix::scales_before(std::int64_t pair) const noexcept {
  return pair * column_groups_ * 2 * steps_.shape.lanes;
}

WindowValues WindowsMatrix::arrange(std::span<const std::int64_t> entries,
                                    std::span<const float> values) const {
  FloatBuffer steps(entries.size());
  float* to = steps.data();
  for (const std::int64_t entry : entries) *to++ = entry < 0 ? 0.0F : values[to_size(entry)];
  return {HeldValues(held_, std::move(steps)), least_b_for(least_magnitude(values))};
}

WindowValues WindowsMatrix::arrange(std::span<const float> values) const {
  return arrange(steps_.entries, values);
}

bool WindowsMatrix::takes_in_place(const Product& operands) const noexcept {
  const bool is_aligned =
      steps_.shape.align == 1 ||
      reinterpret_cast<std::uintptr_t>(operands.b) % FloatBuffer::k_alignment == 0;
  return operands.n == 1 && operands.ldb == 1 && cols_ == column_floats() && is_aligned;
}

void WindowsMatrix::copy_columns(const Product& operands, float* columns) const {
  const std::int64_t stride = column_floats();
  for (std::int64_t j = 0; j < operands.n; ++j) {
    std::fill(columns + j * stride + cols_, columns + (j + 1) * stride, 0.0F);
  }
  if (operands.ldb == operands.n) {
    k_copies[to_size(operands.n - 1)](operands.b, cols_, columns, stride);
    return;
  }
  for (std::int64_t row = 0; row < cols_; ++row) {
    for (std::int64_t j = 0; j < operands.n; ++j) {
      columns[j * stride + row] = operands.b[row * operands.ldb + j];
    }
  }
}

bool WindowsMatrix::takes(const WindowOperands& operands, const WindowValues& values) const {
  if (isa_ == HostIsa::avx512) return true;
  for (std::int64_t j = 0; j < operands.n; ++j) {
    const float* const column = operands.b + j * column_floats();
    if (!spjit::takes(look_at(isa_, column, 1, cols_, 1), values.least_b)) return false;
  }
  return true;
}

std::int64_t WindowsMatrix::bytes() const noexcept {
  const std::int64_t of_step =
      slots_ == WindowSlots::packed
          ? steps_.shape.lanes + std::int64_t{sizeof(near_starts_[0])}
          : steps_.shape.lanes * (bytes_of(held_) + std::int64_t{sizeof(steps_.places[0])}) +
                std::int64_t{sizeof(steps_.starts[0])};
  const std::int64_t of_pair =
      column_groups_ *
      (2 * steps_.shape.lanes * std::int64_t{sizeof(float)} + std::int64_t{sizeof(ScaledSteps)});
  return steps() * of_step + pairs() * of_pair;
}

std::int64_t WindowsMatrix::held_bytes() const noexcept {
  const std::int64_t of_scales =
      static_cast<std::int64_t>(scales_.size()) * std::int64_t{sizeof(float)};
  return steps_.held_bytes() + spjit::held_bytes(near_starts_) + values_.steps.bytes() + of_scales;
}

std::vector<RowRange> WindowsMatrix::split(std::int64_t parts, std::int64_t n) const {
  parts = std::clamp<std::int64_t>(steps() * n / k_least_steps_a_part, 1, parts);
  return split_evenly(pairs(), parts, [&](std::int64_t pair) {
    return pair < pairs() ? steps_.pairs[to_size(pair)].step : steps();
  });
}

void WindowsMatrix::run(const RowRange& pairs, const WindowOperands& operands,
                        const WindowValues& values) const {
  const auto of_range =
      std::span(steps_.pairs).subspan(to_size(pairs.begin), to_size(pairs.end - pairs.begin));
  if (of_range.empty()) return;
  const std::int64_t first = of_range.front().step;
  const std::int64_t lanes = steps_.shape.lanes;
  StepStream from{.places = steps_.places.data() + first * lanes};
  if (slots_ == WindowSlots::packed) {
    from.near_starts = near_starts_.data() + first;
    from.near_columns = group_columns_;
  } else {
    from.starts = steps_.starts.data() + first;
    from.values = values.steps.from(to_size(first * lanes));
  }
  RunPairs kernel = kernel_of(isa_, held_, operands.n);
  if (column_groups_ > 0) {
    from.column_groups = column_groups_;
    from.scaled = steps_.scaled.data() + pairs.begin * column_groups_;
    from.scales = scales_.data() + scales_before(pairs.begin);
    kernel = scaled_kernel_of(isa_, slots_, operands.n);
  }
  kernel(from, of_range, steps_.rows.data() + pairs.begin * 2 * lanes, operands, column_floats());
}

}  // namespace spjit
