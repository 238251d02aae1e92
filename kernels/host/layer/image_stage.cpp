#include "kernels/host/layer/image_stage.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "kernels/host/operands/typed_rows.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spjit {
namespace {

constexpr std::int64_t k_vector = 16;
/// Planes a power of two apart share few sets of the caches.
constexpr std::int64_t k_shared_floats = 256;

/// Elements `stride` floats apart, to places that follow one another.
using CopyRun = void (*)(const float* from, std::int64_t stride, std::int64_t count, float* to);

void copy_run(const float* from, std::int64_t stride, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

#if defined(__x86_64__)
constexpr std::int64_t k_ymm_floats = 8;

/// The last vector reaches back over elements that were copied before.
__attribute__((target("avx2"))) void copy_run_avx2(const float* from, std::int64_t stride,
                                                   std::int64_t count, float* to) {
  if (count < k_ymm_floats || stride > 2) {
    copy_run(from, stride, count, to);
    return;
  }
  std::int64_t i = 0;
  if (stride == 1) {
    for (; i + k_ymm_floats <= count; i += k_ymm_floats)
      _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    i = count - k_ymm_floats;
    _mm256_storeu_ps(to + i, _mm256_loadu_ps(from + i));
    return;
  }
  // Every second element: of two vectors, the second of which begins one element early, so that
  // nothing past the last element is read.
  const auto halves = [&](std::int64_t at) __attribute__((target("avx2"))) {
    const __m256 low = _mm256_loadu_ps(from + 2 * at);
    const __m256 high = _mm256_loadu_ps(from + 2 * at + k_ymm_floats - 1);
    const __m256 mixed = _mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 2, 0));
    const __m256d ordered = _mm256_permute4x64_pd(_mm256_castps_pd(mixed), _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_ps(to + at, _mm256_castpd_ps(ordered));
  };
  for (; i + k_ymm_floats <= count; i += k_ymm_floats) halves(i);
  if (i < count) halves(count - k_ymm_floats);
}
#endif

CopyRun copy_run_of(HostIsa isa) {
#if defined(__x86_64__)
  if (isa != HostIsa::generic) return copy_run_avx2;
#endif
  static_cast<void>(isa);
  return copy_run;
}

/// Copies a run of elements of bf16 or f16 as floats.
void widen_run(const std::uint16_t* from, std::int64_t stride, std::int64_t count,
               WidenHalves widen, float* to) {
  if (stride == 1) {
    widen(from, count, to);
    return;
  }
  std::array<std::uint16_t, 64> gathered;
  for (std::int64_t i = 0; i < count; i += std::ssize(gathered)) {
    const std::int64_t some = std::min<std::int64_t>(std::ssize(gathered), count - i);
    for (std::int64_t j = 0; j < some; ++j) gathered[to_size(j)] = from[(i + j) * stride];
    widen(gathered.data(), some, to + i);
  }
}

/// Copies runs of one image.
class RunCopy {
 public:
  RunCopy(const ConstOperand& image, HostIsa isa)
      : data_(image.data), copy_(copy_run_of(isa)), widen_(widening_of(image.type, isa)) {}

  /// Elements from one on, `stride` apart.
  void operator()(std::int64_t first, std::int64_t stride, std::int64_t count, float* to) const {
    if (widen_ == nullptr) {
      copy_(static_cast<const float*>(data_) + first, stride, count, to);
    } else {
      widen_run(static_cast<const std::uint16_t*>(data_) + first, stride, count, widen_, to);
    }
  }

 private:
  static WidenHalves widening_of(DataType type, HostIsa isa) {
    return is_half(type) ? widen_of(type, isa) : nullptr;
  }

  const void* data_;
  CopyRun copy_;
  WidenHalves widen_;
};

/// Mostly of one or two places.
void clear_run(float* to, std::int64_t count) {
  constexpr std::int64_t k_few = 4;
  if (count > k_few) {
    std::memset(to, 0, to_size(count) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = 0;
    asm volatile("" : : : "memory");  // no call for one or two
  }
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

ImagePlan::ImagePlan(const Convolution& convolution, const ImageColumns& columns)
    : of_(convolution), made_for_(columns) {
  const std::int64_t height = of_.output_height();
  const std::int64_t width = of_.output_width();
  vertical_ = axis_of(
      {of_.height, of_.kernel_height, of_.stride_height, of_.dilation_height, of_.pad_top, height});
  horizontal_ = axis_of(
      {of_.width, of_.kernel_width, of_.stride_width, of_.dilation_width, of_.pad_left, width});
  plan_planes();
  add_places();
  if (made_for_.in_runs) add_runs();
}

void ImagePlan::plan_planes() {
  const std::int64_t height = of_.output_height();
  const std::int64_t width = of_.output_width();
  // Padding that the end of a row and the beginning of the next one have in common.
  std::int64_t shared = horizontal_.reach;
  for (const Phase& phase : horizontal_.phases) {
    shared = std::min({shared, phase.begin, width + horizontal_.reach - phase.end});
  }
  pitch_ = width + horizontal_.reach - shared;
  reach_ = vertical_.reach * pitch_ + horizontal_.reach;
  const std::int64_t all_places = (height - 1) * pitch_ + width;
  columns_ = made_for_.in_runs ? height * width : all_places;
  if (made_for_.in_runs) {
    cut_ = ColumnCut(columns_, {.columns = round_up(columns_, k_vector)});
    images_at_once_ = std::max<std::int64_t>(made_for_.at_once / columns_, 1);
  } else {
    // So many that what all of them read beyond themselves is little.
    const std::int64_t at_once = std::max(made_for_.at_once, round_up(2 * reach_, k_vector));
    cut_ = ColumnCut(columns_, {.columns = at_once, .threads = made_for_.threads});
  }
  const std::int64_t places = made_for_.in_runs ? all_places : cut_.most();
  plane_ = round_up(round_up(places, k_vector) + reach_, k_vector);
  if (plane_ % k_shared_floats == 0) plane_ += k_vector;
}

void ImagePlan::add_places() {
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

void ImagePlan::add_runs() {
  const std::int64_t width = of_.output_width();
  const std::int64_t of_image = images_at_once_ > 1 ? floats(of_.channels) : 0;
  // Rows that follow one another are one run.
  const std::int64_t rows = pitch_ == width ? 1 : of_.output_height();
  for (std::int64_t image = 0; image < images_at_once_; ++image) {
    for (std::int64_t row = 0; row < rows; ++row) {
      runs_.push_back({image * columns_ + row * width, image * of_image + row * pitch_});
    }
  }
}

bool ImagePlan::has_pixels_alone(const Convolution& convolution) noexcept {
  const Convolution& of = convolution;
  return of.output_height() == 1 || (of.kernel_width - 1) * of.dilation_width < of.stride_width;
}

std::int64_t ImagePlan::floats(std::int64_t channels) const {
  return checked_multiply(channels, planes_a_channel() * plane_, "floats of an image's planes");
}

/// The runs of all places of a range, in order.
template <class Visit>
void ImagePlan::for_each_run(const Phase& rows, const Phase& columns, const RowRange& range,
                             const Visit& visit) const {
  const std::int64_t end = range.end + reach_;
  std::int64_t row = range.begin / pitch_;
  std::int64_t at = range.begin;
  for (std::int64_t first = row * pitch_; at < end; first += pitch_, ++row) {
    const std::int64_t row_end = std::min(first + pitch_, end);
    const bool has_image = row >= rows.begin && row < rows.end;
    const std::int64_t image_begin =
        has_image ? std::clamp(first + columns.begin, at, row_end) : row_end;
    const std::int64_t image_end =
        has_image ? std::clamp(first + columns.end, image_begin, row_end) : row_end;
    if (at < image_begin) visit(Run{at - range.begin, image_begin - at, -1, 0});
    if (image_begin < image_end) {
      visit(Run{image_begin - range.begin, image_end - image_begin,
                row * of_.stride_height + rows.remainder - of_.pad_top,
                (image_begin - first) * of_.stride_width + columns.remainder - of_.pad_left});
    }
    if (image_end < row_end) visit(Run{image_end - range.begin, row_end - image_end, -1, 0});
    at = row_end;
  }
}

/// A channel after another: what is read and written of one lies together.
void ImagePlan::stage_features(const ConstOperand& image, const PlacesOfChannels& part, float* to,
                               HostIsa isa) const {
  const RunCopy copy(image, isa);
  float* plane = to + part.channels.begin * planes_a_channel() * plane_;
  for (std::int64_t channel = part.channels.begin; channel < part.channels.end; ++channel) {
    const std::int64_t pixels = channel * image.ld;
    for (const Phase& row_phase : vertical_.phases) {
      for (const Phase& column_phase : horizontal_.phases) {
        for_each_run(row_phase, column_phase, part.places, [&](const Run& run) {
          if (run.y < 0) {
            clear_run(plane + run.place, run.count);
          } else {
            copy(pixels + run.y * of_.width + run.x, of_.stride_width, run.count,
                 plane + run.place);
          }
        });
        plane += plane_;
      }
    }
  }
}

/// All channels of some pixels at a time, which lie together.
void ImagePlan::stage_tokens(const ConstOperand& image, const PlacesOfChannels& part, float* to,
                             HostIsa isa) const {
  const RowRange& channels = part.channels;
  const std::int64_t count = channels.end - channels.begin;
  const std::int64_t distance = planes_a_channel() * plane_;
  float* planes = to + channels.begin * distance;
  for (const Phase& row_phase : vertical_.phases) {
    for (const Phase& column_phase : horizontal_.phases) {
      for_each_run(row_phase, column_phase, part.places, [&](const Run& run) {
        float* const place = planes + run.place;
        if (run.y < 0) {
          for (std::int64_t i = 0; i < count; ++i) clear_run(place + i * distance, run.count);
          return;
        }
        const std::int64_t first = (run.y * of_.width + run.x) * image.ld + channels.begin;
        const std::int64_t stride = of_.stride_width * image.ld;
        if (is_half(image.type)) {
          const auto* const halves = static_cast<const std::uint16_t*>(image.data) + first;
          widen_transposed({halves, stride, image.type}, run.count, count, {place, distance}, isa);
          return;
        }
        transpose(IntoPanels{.from = {image.as<float>() + first, stride},
                             .rows = run.count,
                             .columns = count,
                             .to = {place, run.count, distance, 0}},
                  isa);
      });
      planes += plane_;
    }
  }
}

void ImagePlan::stage(const ConstOperand& x, const Part& part, float* to, HostIsa isa) const {
  const RowRange all{0, (of_.output_height() - 1) * pitch_ + of_.output_width()};
  const PlacesOfChannels places{part.channels, made_for_.in_runs ? all : part.columns};
  if (x.layout == Layout::tokens_major) {
    stage_tokens(x, places, to, isa);
  } else {
    stage_features(x, places, to, isa);
  }
}

}  // namespace spjit
