#include "kernels/host/byte_windows/byte_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "kernels/host/operands/simd.hpp"

#define SPJIT_VNNI_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx2,fma")))
#define SPJIT_VNNI_INLINE SPJIT_VNNI_TARGET __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

/// Tokens that are computed together: their sums are registers.
constexpr std::int64_t k_pass_tokens = 8;

/// Of A that is read for all tokens before what follows it [bytes].
constexpr std::int64_t k_near_bytes = std::int64_t{128} << 10;

/// How far ahead of their use A's places and values are asked for [bytes].
constexpr std::ptrdiff_t k_bytes_ahead = 2048;

/// AVX2: with twice the window a step takes 1.33 times as long.
constexpr double k_cost_of_two_halves = 1.33;
constexpr std::int64_t k_half_window = 16;
/// In a place of AVX2: it is in the other half of the window, and vpshufb gives 0.
constexpr std::uint8_t k_other_half = 0x80;

/// Where a run is, without bounds.
struct ByteStream {
  const std::uint32_t* starts;
  const std::uint8_t* places;
  const std::uint8_t* values;
};

/// Groups that follow one another.
struct ByteGroups {
  std::int64_t first_step;
  std::span<const std::int64_t> ends;
  const std::int32_t* rows;      ///< [groups x lanes]
  const std::int32_t* row_sums;  ///< the same, of A; null: 0 is stored as 0
  std::int32_t zero_point;
};

/// Operands of up to k_pass_tokens tokens.
struct BytePass {
  const std::uint8_t* b;
  std::int64_t stride;
  std::byte* c;
  std::int64_t row_bytes;
  std::int64_t token_bytes;
  bool has_floats;
};

using RunByteGroups = void (*)(const ByteStream&, const ByteGroups&, const BytePass&);

namespace bytes_vnni {
#define SPJIT_BYTES_TARGET SPJIT_VNNI_TARGET
#define SPJIT_BYTES_INLINE SPJIT_VNNI_INLINE

struct VnniBytes {
  using Vector = __m512i;
  struct Step {
    __m512i places;
    __m512i values;
  };
  static constexpr std::size_t k_lanes = 16;
  static constexpr std::ptrdiff_t k_slots = 64;
  /// Sums of one token that would wait for each other.
  static constexpr std::size_t chains(std::size_t tokens) {
    return tokens == 1 ? 4 : tokens <= 3 ? 2 : 1;
  }

  SPJIT_BYTES_INLINE static Vector zero() { return _mm512_setzero_si512(); }
  SPJIT_BYTES_INLINE static Vector load(const std::int32_t* from) {
    return _mm512_loadu_si512(from);
  }
  SPJIT_BYTES_INLINE static void store(std::int32_t* to, Vector value) {
    _mm512_store_si512(to, value);
  }
  SPJIT_BYTES_INLINE static Vector plus(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  SPJIT_BYTES_INLINE static Vector times(Vector a, std::int32_t b) {
    return _mm512_mullo_epi32(a, _mm512_set1_epi32(b));
  }
  SPJIT_BYTES_INLINE static Vector floats(Vector sums) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(sums));
  }
  SPJIT_BYTES_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    return {_mm512_load_si512(places), _mm512_load_si512(values)};
  }
  SPJIT_BYTES_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const __m512i bytes = _mm512_permutexvar_epi8(step.places, _mm512_loadu_si512(window));
    return _mm512_dpbusd_epi32(sums, bytes, step.values);
  }
  SPJIT_BYTES_INLINE static void fetch_ahead(const ByteStream& at) {
    _mm_prefetch(at.places + k_bytes_ahead, _MM_HINT_T0);
    _mm_prefetch(at.values + k_bytes_ahead, _MM_HINT_T0);
  }
};

#include "kernels/host/byte_windows/byte_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_vnni

namespace bytes_avx2 {
#define SPJIT_BYTES_TARGET SPJIT_AVX2_TARGET
#define SPJIT_BYTES_INLINE SPJIT_AVX2_INLINE

/// Bytes that a window of 16 or 32 columns gives: its halves are tables of their own.
template <std::int64_t Window>
struct Avx2Window {
  __m256i near;
  __m256i far;

  SPJIT_BYTES_INLINE static Avx2Window of(const std::uint8_t* places) {
    const __m256i near = _mm256_load_si256(reinterpret_cast<const __m256i*>(places));
    const auto other = static_cast<char>(k_other_half);
    return {near, _mm256_xor_si256(near, _mm256_set1_epi8(other))};
  }
  SPJIT_BYTES_INLINE static __m256i table(const std::uint8_t* from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  SPJIT_BYTES_INLINE __m256i fetch(const std::uint8_t* window) const {
    const __m256i bytes = _mm256_shuffle_epi8(table(window), near);
    if constexpr (Window == k_half_window) return bytes;
    return _mm256_or_si256(bytes, _mm256_shuffle_epi8(table(window + k_half_window), far));
  }
};

struct Avx2Sums {
  using Vector = __m256i;
  static constexpr std::size_t k_lanes = 8;
  static constexpr std::ptrdiff_t k_slots = 32;
  static constexpr std::size_t chains(std::size_t /*tokens*/) { return 1; }

  SPJIT_BYTES_INLINE static Vector zero() { return _mm256_setzero_si256(); }
  SPJIT_BYTES_INLINE static Vector load(const std::int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  SPJIT_BYTES_INLINE static void store(std::int32_t* to, Vector value) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), value);
  }
  SPJIT_BYTES_INLINE static Vector plus(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  SPJIT_BYTES_INLINE static Vector times(Vector a, std::int32_t b) {
    return _mm256_mullo_epi32(a, _mm256_set1_epi32(b));
  }
  SPJIT_BYTES_INLINE static Vector floats(Vector sums) {
    return _mm256_castps_si256(_mm256_cvtepi32_ps(sums));
  }
  SPJIT_BYTES_INLINE static Vector values_of(const std::uint8_t* values) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(values));
  }
  /// Sums of two neighbours of 16 bits.
  SPJIT_BYTES_INLINE static Vector pairs(Vector products) {
    return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
  }
  SPJIT_BYTES_INLINE static void fetch_ahead(const ByteStream& at) {
    _mm_prefetch(at.places + k_bytes_ahead, _MM_HINT_T0);
    _mm_prefetch(at.values + k_bytes_ahead, _MM_HINT_T0);
  }
};

/// |w| times x with the sign of w.
template <std::int64_t Window>
struct SignedBytes : Avx2Sums {
  struct Step {
    Avx2Window<Window> places;
    Vector values;
    Vector magnitudes;
  };

  SPJIT_BYTES_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    const Vector w = values_of(values);
    return {Avx2Window<Window>::of(places), w, _mm256_abs_epi8(w)};
  }
  SPJIT_BYTES_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const Vector x = _mm256_sign_epi8(step.places.fetch(window), step.values);
    return _mm256_add_epi32(sums, pairs(_mm256_maddubs_epi16(step.magnitudes, x)));
  }
};

/// w of even and of odd columns apart: a pair of 255 * 127 would saturate.
template <std::int64_t Window>
struct UnsignedBytes : Avx2Sums {
  struct Step {
    Avx2Window<Window> places;
    Vector even;
    Vector odd;
  };

  SPJIT_BYTES_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    const Vector w = values_of(values);
    const Vector low = _mm256_set1_epi16(0xFF);
    return {Avx2Window<Window>::of(places), _mm256_and_si256(w, low), _mm256_andnot_si256(low, w)};
  }
  SPJIT_BYTES_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const Vector x = step.places.fetch(window);
    const Vector even = pairs(_mm256_maddubs_epi16(x, step.even));
    const Vector odd = pairs(_mm256_maddubs_epi16(x, step.odd));
    return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
  }
};

#include "kernels/host/byte_windows/byte_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_avx2

RunByteGroups kernel_of(ByteForm form, std::int64_t window, ByteKind kind, std::int64_t tokens) {
  const std::size_t at = to_size(tokens - 1);
  if (form == ByteForm::vnni) return bytes_vnni::k_kernels<bytes_vnni::VnniBytes>[at];
  using namespace bytes_avx2;
  if (window == k_half_window) {
    return kind == ByteKind::is_signed ? k_kernels<SignedBytes<16>>[at]
                                       : k_kernels<UnsignedBytes<16>>[at];
  }
  return kind == ByteKind::is_signed ? k_kernels<SignedBytes<32>>[at]
                                     : k_kernels<UnsignedBytes<32>>[at];
}

/// AVX2: with the wider window where so few columns of the narrow one are entries that its steps
/// take longer.
ByteSteps steps_for(const CsrView& matrix, ByteForm form, const Cancellation& cancel) {
  const auto ordered = [&](const ByteShape& shape) {
    return order_byte_rows(matrix, shape, cancel);
  };
  if (form == ByteForm::vnni) {
    constexpr ByteShape k_shape{16, 64};
    return make_byte_steps(matrix, k_shape, ordered(k_shape), cancel);
  }
  constexpr ByteShape k_narrow{8, k_half_window};
  constexpr ByteShape k_wide{8, 2 * k_half_window};
  const OrderedRows of_narrow = ordered(k_narrow);
  const OrderedRows of_wide = ordered(k_wide);
  const bool is_narrow =
      as_double(of_narrow.steps) <= k_cost_of_two_halves * as_double(of_wide.steps);
  return is_narrow ? make_byte_steps(matrix, k_narrow, of_narrow, cancel)
                   : make_byte_steps(matrix, k_wide, of_wide, cancel);
}

/// A place as the loop of AVX2 takes it.
std::uint8_t place_of_halves(std::uint8_t place) {
  return place < k_half_window ? place
                               : static_cast<std::uint8_t>(k_other_half | (place - k_half_window));
}

/// Tokens that are computed together, which are a distance apart.
struct TokensOfPass {
  const std::uint8_t* b;
  std::int64_t distance;
  std::int64_t count;
};

/// Those from `token` on.
TokensOfPass tokens_of_pass(const ByteOperands& operands, std::int64_t token,
                            std::int64_t token_bytes) {
  const std::int64_t count = std::min(k_pass_tokens, operands.n - token);
  if (operands.rows == nullptr) return {operands.b + token * token_bytes, token_bytes, count};
  const ByteRows& rows = *operands.rows;
  const std::int64_t row = (rows.first + token) / rows.tokens;
  const std::int64_t column = (rows.first + token) % rows.tokens;
  return {operands.b + row * rows.row_distance + column * rows.distance, rows.distance,
          std::min(count, rows.tokens - column)};
}

ByteBuffer buffer_of(std::span<const std::uint8_t> bytes) {
  ByteBuffer buffer(std::ssize(bytes));
  std::ranges::copy(bytes, buffer.data());
  return buffer;
}

ByteValues arrange_bytes(const ByteSteps& steps, std::span<const float> values) {
  ByteValues arranged{ByteBuffer(std::ssize(steps.entries)), {}};
  arranged.row_sums.assign(steps.rows.size(), 0);
  const std::size_t slots = to_size(steps.shape.slots());
  const std::size_t lanes = to_size(steps.shape.lanes);
  std::uint8_t* to = arranged.steps.data();
  std::size_t step = 0;
  for (std::size_t group = 0; group < steps.ends.size(); ++group) {
    std::int32_t* const row_sums = arranged.row_sums.data() + group * lanes;
    for (; step < to_size(steps.ends[group]); ++step) {
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::int64_t entry = steps.entries[step * slots + slot];
        const int value = entry < 0 ? 0 : static_cast<int>(values[to_size(entry)]);
        *to++ = static_cast<std::uint8_t>(value);
        row_sums[slot / ByteShape::k_entries] += value;
      }
    }
  }
  return arranged;
}

}  // namespace

ByteExtensions byte_extensions() noexcept {
  return {__builtin_cpu_supports("avx512vbmi") != 0, __builtin_cpu_supports("avx512vnni") != 0};
}

ByteForm byte_form(HostIsa isa, const ByteExtensions& cpu) noexcept {
  return isa == HostIsa::avx512 && cpu.vbmi && cpu.vnni ? ByteForm::vnni : ByteForm::avx2;
}

ByteMatrix::ByteMatrix(const CsrView& matrix, ByteForm form, const Cancellation& cancel)
    : form_(form), cols_(matrix.cols), steps_(steps_for(matrix, form, cancel)) {
  if (form == ByteForm::avx2) {
    for (std::uint8_t& place : steps_.places) place = place_of_halves(place);
  }
  places_ = buffer_of(steps_.places);
  steps_.places = {};
  if (!matrix.has_values()) return;
  values_ = arrange_bytes(steps_, matrix.values);
  steps_.entries = {};
}

ByteValues ByteMatrix::arrange(std::span<const float> values) const {
  return arrange_bytes(steps_, values);
}

std::int64_t ByteMatrix::token_bytes() const noexcept {
  constexpr std::int64_t k_line_bytes = 64;
  return (ceil_div(cols_ + shape().window, k_line_bytes) | 1) * k_line_bytes;
}

double ByteMatrix::cost(std::int64_t tokens) const noexcept {
  constexpr double k_step_ns = 5.3;
  const double of_window = shape().window == k_half_window ? 1 : 1.45;
  return as_double(ceil_div(tokens, k_pass_tokens)) * as_double(steps()) * k_step_ns * of_window;
}

std::vector<RowRange> ByteMatrix::split(std::int64_t parts) const {
  return split_evenly(groups(), std::max<std::int64_t>(parts, 1), [&](std::int64_t group) {
    // A group without steps still writes its rows.
    return group + (group == 0 ? 0 : steps_.ends[to_size(group - 1)]);
  });
}

void ByteMatrix::run(const RowRange& groups, const ByteOperands& operands,
                     const ByteValues& values) const {
  const auto step_before = [&](std::int64_t group) {
    return group == 0 ? 0 : steps_.ends[to_size(group - 1)];
  };
  const std::int64_t near_steps = k_near_bytes / shape().step_bytes();
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = step_before(group);
    std::int64_t end = group + 1;
    while (end < groups.end && step_before(end + 1) - first <= near_steps) ++end;
    const std::int64_t at = group * shape().lanes;
    const bool has_zero_point = operands.zero_point != 0;
    const std::uint32_t* const starts =
        operands.rows == nullptr ? steps_.starts.data() : operands.rows->starts;
    const ByteStream from{starts + first, places_.data() + first * shape().slots(),
                          values.steps.data() + first * shape().slots()};
    const ByteGroups some{
        first, std::span(steps_.ends).subspan(to_size(group), to_size(end - group)),
        steps_.rows.data() + at, has_zero_point ? values.row_sums.data() + at : nullptr,
        operands.zero_point};
    for (std::int64_t token = 0; token < operands.n;) {
      const TokensOfPass pass = tokens_of_pass(operands, token, token_bytes());
      kernel_of(form_, shape().window, operands.kind, pass.count)(
          from, some,
          {pass.b, pass.distance, operands.c + token * operands.token_bytes, operands.row_bytes,
           operands.token_bytes, operands.has_floats});
      token += pass.count;
    }
    group = end;
  }
}

}  // namespace spjit
