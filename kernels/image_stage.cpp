#include "kernels/image_stage.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/arithmetic.hpp"
#include "kernels/transpose.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spjit {
namespace {

constexpr std::int64_t k_vector = 16;
/// Planes a power of two apart share few sets of the caches.
constexpr std::int64_t k_shared_floats = 256;

/// A run of each of some channels.
struct ChannelRuns {
  const float* from;
  std::int64_t from_distance;  ///< floats between channels
  std::int64_t stride;         ///< floats between elements that are copied
  float* to;
  std::int64_t to_distance;
  std::int64_t count;  ///< of a run
  std::int64_t channels;
};

void copy_runs(const ChannelRuns& runs) {
  for (std::int64_t channel = 0; channel < runs.channels; ++channel) {
    const float* const from = runs.from + channel * runs.from_distance;
    float* const to = runs.to + channel * runs.to_distance;
    if (runs.stride == 1) {
      std::memcpy(to, from, to_size(runs.count) * sizeof(float));
      continue;
    }
    for (std::int64_t i = 0; i < runs.count; ++i) to[i] = from[i * runs.stride];
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void copy_runs_avx512(const ChannelRuns& runs) {
  const std::int64_t whole = runs.count / k_vector * k_vector;
  const auto rest = static_cast<__mmask16>((1U << (runs.count - whole)) - 1);
  for (std::int64_t channel = 0; channel < runs.channels; ++channel) {
    const float* const from = runs.from + channel * runs.from_distance;
    float* const to = runs.to + channel * runs.to_distance;
    for (std::int64_t i = 0; i < whole; i += k_vector) {
      _mm512_storeu_ps(to + i, _mm512_loadu_ps(from + i));
    }
    if (rest != 0) {
      _mm512_mask_storeu_ps(to + whole, rest, _mm512_maskz_loadu_ps(rest, from + whole));
    }
  }
}

/// Every second element.
__attribute__((target("avx512f"))) void copy_halves_avx512(const ChannelRuns& runs) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  for (std::int64_t channel = 0; channel < runs.channels; ++channel) {
    const float* const from = runs.from + channel * runs.from_distance;
    float* const to = runs.to + channel * runs.to_distance;
    for (std::int64_t i = 0; i < runs.count; i += k_vector) {
      // The last element of the last vector may be the last that there is to read.
      const std::int64_t left = std::min(2 * (runs.count - i) - 1, 2 * k_vector);
      const auto first = static_cast<__mmask16>((1U << std::min(left, k_vector)) - 1);
      const auto second =
          static_cast<__mmask16>((1U << std::max<std::int64_t>(left - k_vector, 0)) - 1);
      const __m512 low = _mm512_maskz_loadu_ps(first, from + 2 * i);
      const __m512 high = _mm512_maskz_loadu_ps(second, from + 2 * i + k_vector);
      const auto stored = static_cast<__mmask16>((1U << std::min(runs.count - i, k_vector)) - 1);
      _mm512_mask_storeu_ps(to + i, stored, _mm512_permutex2var_ps(low, even, high));
    }
  }
}
#endif

void copy_runs(const ChannelRuns& runs, HostIsa isa) {
#if defined(__x86_64__)
  if (isa == HostIsa::avx512 && runs.stride <= 2) {
    runs.stride == 1 ? copy_runs_avx512(runs) : copy_halves_avx512(runs);
    return;
  }
#endif
  static_cast<void>(isa);
  copy_runs(runs);
}

}  // namespace

struct ImagePlan::Run {
  std::int64_t place;  ///< from the first of the range on
  std::int64_t count;
  std::int64_t y;  ///< of the image; below 0: padding
  std::int64_t x;
};

ImagePlan::Axis ImagePlan::axis_of(const AxisSizes& sizes) {
  Axis axis;
  std::map<std::int64_t, std::int64_t> index_of;  // of a remainder that a tap has
  for (std::int64_t tap = 0; tap < sizes.kernel; ++tap) {
    const std::int64_t at = tap * sizes.dilation;
    const auto [found, is_new] = index_of.try_emplace(at % sizes.stride, std::ssize(axis.phases));
    if (is_new) axis.phases.push_back({at % sizes.stride, 0, 0});
    axis.phase_of.push_back(found->second);
    axis.shift_of.push_back(at / sizes.stride);
    axis.reach = at / sizes.stride;
  }
  const std::int64_t places = sizes.places + axis.reach;
  for (Phase& phase : axis.phases) {
    const auto first_from = [&](std::int64_t element) {
      const std::int64_t behind = element + sizes.pad - phase.remainder;
      return std::clamp<std::int64_t>(behind <= 0 ? 0 : ceil_div(behind, sizes.stride), 0, places);
    };
    phase.begin = first_from(0);
    phase.end = first_from(sizes.size);
  }
  return axis;
}

ImagePlan::ImagePlan(const Convolution& convolution, std::int64_t columns_at_once)
    : of_(convolution) {
  const std::int64_t height = of_.output_height();
  const std::int64_t width = of_.output_width();
  vertical_ = axis_of(
      {of_.height, of_.kernel_height, of_.stride_height, of_.dilation_height, of_.pad_top, height});
  horizontal_ = axis_of(
      {of_.width, of_.kernel_width, of_.stride_width, of_.dilation_width, of_.pad_left, width});
  // Padding that the end of a row and the beginning of the next one have in common.
  std::int64_t shared = horizontal_.reach;
  for (const Phase& phase : horizontal_.phases) {
    shared = std::min({shared, phase.begin, width + horizontal_.reach - phase.end});
  }
  pitch_ = width + horizontal_.reach - shared;
  columns_ = (height - 1) * pitch_ + width;
  reach_ = vertical_.reach * pitch_ + horizontal_.reach;
  // So many that what all of them read beyond themselves is little.
  columns_at_once_ = std::min(round_up(columns_, k_vector),
                              std::max(columns_at_once, round_up(2 * reach_, k_vector)));
  plane_ = round_up(columns_at_once_ + reach_, k_vector);
  if (plane_ % k_shared_floats == 0) plane_ += k_vector;
  const std::int64_t of_channel = planes_a_channel() * plane_;
  places_.reserve(to_size(of_.channels * of_.kernel_height * of_.kernel_width));
  for (std::int64_t channel = 0; channel < of_.channels; ++channel) {
    for (std::int64_t r = 0; r < of_.kernel_height; ++r) {
      for (std::int64_t s = 0; s < of_.kernel_width; ++s) {
        const std::int64_t phase = vertical_.phase_of[to_size(r)] * std::ssize(horizontal_.phases) +
                                   horizontal_.phase_of[to_size(s)];
        places_.push_back(channel * of_channel + phase * plane_ +
                          vertical_.shift_of[to_size(r)] * pitch_ +
                          horizontal_.shift_of[to_size(s)]);
      }
    }
  }
}

std::int64_t ImagePlan::floats(std::int64_t channels) const {
  return checked_multiply(channels, planes_a_channel() * plane_, "floats of an image's planes");
}

/// The runs of all places of a range, in order.
template <class Visit>
void ImagePlan::for_each_run(const Phase& rows, const Phase& columns, const RowRange& range,
                             const Visit& visit) const {
  const std::int64_t end = std::min(range.end + reach_, range.begin + plane_);
  for (std::int64_t at = range.begin; at < end;) {
    const std::int64_t row = at / pitch_;
    const std::int64_t first = row * pitch_;
    const std::int64_t row_end = std::min(first + pitch_, end);
    std::int64_t image_begin = first + columns.begin;
    std::int64_t image_end = first + columns.end;
    if (row < rows.begin || row >= rows.end) image_begin = image_end = row_end;
    const auto padding = [&](std::int64_t until) {
      if (at < until) visit(Run{at - range.begin, until - at, -1, 0});
      at = std::max(at, until);
    };
    padding(std::min(image_begin, row_end));
    if (at < std::min(image_end, row_end)) {
      const std::int64_t count = std::min(image_end, row_end) - at;
      visit(Run{at - range.begin, count, row * of_.stride_height + rows.remainder - of_.pad_top,
                (at - first) * of_.stride_width + columns.remainder - of_.pad_left});
      at += count;
    }
    padding(row_end);
  }
}

void ImagePlan::stage(const float* x, const Operand& layout, const RowRange& channels,
                      const RowRange& columns, float* to, HostIsa isa) const {
  const std::int64_t count = channels.end - channels.begin;
  const std::int64_t distance = planes_a_channel() * plane_;
  const bool has_tokens = layout.layout == Layout::tokens_major;
  std::int64_t plane = 0;
  for (const Phase& row_phase : vertical_.phases) {
    for (const Phase& column_phase : horizontal_.phases) {
      float* const planes = to + channels.begin * distance + plane_ * plane++;
      for_each_run(row_phase, column_phase, columns, [&](const Run& run) {
        float* const place = planes + run.place;
        if (run.y < 0) {
          for (std::int64_t channel = 0; channel < count; ++channel) {
            std::fill_n(place + channel * distance, run.count, 0.0F);
          }
          return;
        }
        const float* const from = x + layout.offset(channels.begin, run.y * of_.width + run.x);
        if (!has_tokens) {
          copy_runs({from, layout.ld, of_.stride_width, place, distance, run.count, count}, isa);
          return;
        }
        transpose(IntoPanels{.from = {from, of_.stride_width * layout.ld},
                             .rows = run.count,
                             .columns = count,
                             .to = {place, run.count, distance, 0}},
                  isa);
      });
    }
  }
}

}  // namespace spjit
