#include "kernels/cuda/unrolled/cuda_patches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_word_bits = 32;
/// Words of a mask, a register each; of 11x11 taps four.
constexpr std::int64_t k_most_words = 4;
/// Taps with a register each: what ptxas needs for as many loads in flight anyway.
constexpr std::int64_t k_most_kept_taps = 16;

/// One dimension of an image.
struct PatchAxis {
  std::int64_t size;
  std::int64_t output;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t pad;  ///< in front
  std::int64_t dilation;

  [[nodiscard]] std::int64_t distance(std::int64_t tap) const noexcept { return tap * dilation; }
  /// Whether a tap is in the image for every pixel of the output.
  [[nodiscard]] bool is_inside(std::int64_t tap) const noexcept {
    const std::int64_t first = distance(tap) - pad;
    return first >= 0 && first + (output - 1) * stride < size;
  }
};

PatchAxis vertical_of(const Convolution& of) noexcept {
  return {of.height,        of.output_height(), of.kernel_height,
          of.stride_height, of.pad_top,         of.dilation_height};
}
PatchAxis horizontal_of(const Convolution& of) noexcept {
  return {of.width,        of.output_width(), of.kernel_width,
          of.stride_width, of.pad_left,       of.dilation_width};
}

std::int64_t taps_of(const Convolution& of) noexcept { return of.kernel_height * of.kernel_width; }

std::int64_t count_inside(const PatchAxis& axis) noexcept {
  std::int64_t count = 0;
  for (std::int64_t tap = 0; tap < axis.kernel; ++tap) count += axis.is_inside(tap) ? 1 : 0;
  return count;
}

/// Taps whose loads have a predicate.
std::int64_t masked_taps(const Convolution& of) noexcept {
  return taps_of(of) - count_inside(vertical_of(of)) * count_inside(horizontal_of(of));
}

std::int64_t words_of(const Convolution& of) noexcept {
  return masked_taps(of) == 0 ? 0 : ceil_div(taps_of(of), k_word_bits);
}

/// The register `name`, or `at`, which is so much more.
std::string_view moved(SourceText& text, std::string_view name, std::int64_t distance) {
  if (distance == 0) return name;
  text << "add.s32 at," << name << "," << distance << ";\n";
  return "at";
}

}  // namespace

Refusal convolution_refusal(const Convolution& convolution, bool runtime_sizes) {
  const Convolution& of = convolution;
  if (runtime_sizes) {
    return Refusal(
        "a convolution of images whose size a run says: loads of a GPU kernel are at constant "
        "offsets");
  }
  const std::int64_t height = of.height + of.pad_top + of.pad_bottom;
  const std::int64_t width = of.width + of.pad_left + of.pad_right;
  if (height > k_cuda_max_leading_dimension / width) {
    return Refusal(
        fmt::format("images of {} x {} pixels with their padding; a GPU kernel takes up to {}",
                    height, width, k_cuda_max_leading_dimension));
  }
  if (words_of(of) > k_most_words || (words_of(of) > 0 && of.kernel_width > k_word_bits)) {
    return Refusal(fmt::format(
        "a kernel of {} x {} taps with padding; a GPU kernel takes up to {} of them, up to {} side "
        "by side",
        of.kernel_height, of.kernel_width, k_most_words * k_word_bits, k_word_bits));
  }
  return Refusal::none();
}

Refusal wrong_patches(const CudaLayer& layer, const LayerSizes& sizes, bool runtime_sizes) {
  if (!layer.convolution) return Refusal::none();
  if (Refusal refusal = convolution_refusal(*layer.convolution, runtime_sizes)) return refusal;
  return wrong_image(layer, sizes);
}

std::int64_t mask_instructions(const CudaLayer& layer, std::int64_t loads,
                               std::int64_t functions) noexcept {
  if (mask_words(layer) == 0) return 0;
  const std::int64_t masked = masked_taps(*layer.convolution);
  const std::int64_t of_function = 2 * masked * functions;
  // 3x3: predicates do not all stay in their seven registers, a quarter of an instruction a load.
  // 7x7: a test and a move a load.
  return of_function + (kept_taps(layer) > 0 ? loads / 4 : 2 * loads);
}

std::int64_t kept_taps(const CudaLayer& layer) noexcept {
  if (!layer.convolution) return 0;
  const std::int64_t masked = masked_taps(*layer.convolution);
  return masked <= k_most_kept_taps ? masked : 0;
}

std::int64_t mask_words(const CudaLayer& layer) noexcept {
  return layer.convolution ? words_of(*layer.convolution) : 0;
}

CudaPatches::CudaPatches(const CudaLayer& layer, std::int64_t ldb)
    : convolution_(layer.convolution),
      ldb_(ldb),
      has_pixels_(layer.b_layout == Layout::tokens_major),
      words_(mask_words(layer)),
      keeps_(kept_taps(layer) > 0) {}

std::string CudaPatches::word_name(std::int64_t word) { return fmt::format("mask{}", word); }

CudaPatches::Line CudaPatches::row_line(std::int64_t r) const noexcept {
  const PatchAxis axis = vertical_of(*convolution_);
  return {axis.distance(r), axis.is_inside(r)};
}
CudaPatches::Line CudaPatches::column_line(std::int64_t s) const noexcept {
  const PatchAxis axis = horizontal_of(*convolution_);
  return {axis.distance(s), axis.is_inside(s)};
}

CudaPatches::Place CudaPatches::place_of(std::int64_t row) const noexcept {
  if (!convolution_) return {row * ldb_, -1};
  const Convolution& of = *convolution_;
  const std::int64_t channel = row / taps_of(of);
  const std::int64_t tap = row % taps_of(of);
  const Line vertical = row_line(tap / of.kernel_width);
  const Line horizontal = column_line(tap % of.kernel_width);
  const std::int64_t pixel = vertical.distance * of.width + horizontal.distance;
  const std::int64_t floats = has_pixels_ ? pixel * ldb_ + channel : channel * ldb_ + pixel;
  return {floats, vertical.is_inside && horizontal.is_inside ? -1 : tap};
}

std::vector<CudaPatches::MaskPart> CudaPatches::mask_parts() const {
  std::vector<MaskPart> parts;
  const std::int64_t width = convolution_->kernel_width;
  for (std::int64_t r = 0; r < convolution_->kernel_height; ++r) {
    const std::int64_t first = r * width / k_word_bits;
    const std::int64_t last = (r * width + width - 1) / k_word_bits;
    for (std::int64_t word = first; word <= last; ++word) {
      parts.push_back({word, r, r * width - word * k_word_bits});
    }
  }
  return parts;
}

std::int64_t CudaPatches::constant_columns() const noexcept {
  std::int64_t bits = 0;
  for (std::int64_t s = 0; s < convolution_->kernel_width; ++s) {
    if (column_line(s).is_inside) bits |= std::int64_t{1} << s;
  }
  return bits;
}

void CudaPatches::ptx_thread(SourceText& text) const {
  const Convolution& of = *convolution_;
  text << ".reg .b32 y, x, at, columns, bits;\n.reg .pred inside;\ndiv.u32 y,j,"
       << of.output_width() << ";\nmul.lo.u32 x,y," << of.output_width()
       << ";\nsub.u32 x,j,x;\nmad.lo.s32 y,y," << of.stride_height << "," << -of.pad_top
       << ";\nmad.lo.s32 x,x," << of.stride_width << "," << -of.pad_left
       << ";\nmul.wide.s32 offset,y," << of.width
       << ";\ncvt.s64.s32 distance,x;\nadd.s64 offset,offset,distance;\nmul.lo.s64 offset,offset,"
       << (has_pixels_ ? ldb_ : 1) * std::int64_t{sizeof(float)} << ";\nadd.s64 pb,pb,offset;\n";
  if (words_ == 0) return;
  text << "mov.u32 columns," << constant_columns() << ";\n";
  for (std::int64_t s = 0; s < of.kernel_width; ++s) {
    const Line line = column_line(s);
    if (line.is_inside) continue;
    const std::string_view at = moved(text, "x", line.distance);
    text << "setp.lt.u32 inside," << at << "," << of.width << ";\nselp.b32 bits,"
         << (std::int64_t{1} << s) << ",0,inside;\nor.b32 columns,columns,bits;\n";
  }
  for (std::int64_t word = 0; word < words_; ++word) text << "mov.u32 mask" << word << ",0;\n";
  for (const MaskPart& part : mask_parts()) {
    text << (part.shift < 0 ? "shr.u32" : "shl.b32") << " bits,columns,"
         << (part.shift < 0 ? -part.shift : part.shift) << ";\n";
    const Line line = row_line(part.r);
    if (!line.is_inside) {
      const std::string_view at = moved(text, "y", line.distance);
      text << "setp.lt.u32 inside," << at << "," << of.height
           << ";\nselp.b32 bits,bits,0,inside;\n";
    }
    text << "or.b32 mask" << part.word << ",mask" << part.word << ",bits;\n";
  }
}

void CudaPatches::ptx_registers(SourceText& text) const {
  if (words_ == 0) return;
  const std::int64_t taps = taps_of(*convolution_);
  text << ".reg .b32 bits;\n.reg .pred valid<" << taps << ">;\n";
  if (keeps_) text << ".reg .f32 t<" << taps << ">;\n";
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    if (place_of(tap).tap < 0) continue;
    text << "and.b32 bits,mask" << tap / k_word_bits << ","
         << (std::int64_t{1} << (tap % k_word_bits)) << ";\nsetp.ne.u32 valid" << tap
         << ",bits,0;\n";
    if (keeps_) text << "mov.f32 t" << tap << ",0f00000000;\n";
  }
}

std::string CudaPatches::ptx_load(SourceText& text, std::int64_t row, MovingPointer& b) const {
  const Place place = place_of(row);
  const std::int64_t offset = b.reach(text, place.floats * std::int64_t{sizeof(float)});
  std::string element = "b";
  if (place.tap >= 0) {
    if (keeps_) {
      element = fmt::format("t{}", place.tap);
    } else {
      text << "mov.f32 b,0f00000000;\n";
    }
    text << "@valid" << place.tap << " ";
  }
  text << "ld.global.nc.f32 " << element << ",[pb+" << offset << "];\n";
  return element;
}

void CudaPatches::cuda_thread(SourceText& text, std::string_view column) const {
  const Convolution& of = *convolution_;
  text << "  const int y = (int)(" << column << " / " << of.output_width() << "u) * "
       << of.stride_height << " - " << of.pad_top << ";\n  const int x = (int)(" << column << " % "
       << of.output_width() << "u) * " << of.stride_width << " - " << of.pad_left
       << ";\n  const float* const of_b = b + ((long long)y * " << of.width << " + x) * "
       << (has_pixels_ ? ldb_ : 1) << "ll;\n";
  if (words_ == 0) return;
  text << "  unsigned columns = " << constant_columns() << "u;\n";
  for (std::int64_t s = 0; s < of.kernel_width; ++s) {
    const Line line = column_line(s);
    if (line.is_inside) continue;
    text << "  if ((unsigned)(x + " << line.distance << ") < " << of.width
         << "u) columns |= " << (std::int64_t{1} << s) << "u;\n";
  }
  for (std::int64_t word = 0; word < words_; ++word) text << "  unsigned mask" << word << " = 0;\n";
  for (const MaskPart& part : mask_parts()) {
    const Line line = row_line(part.r);
    text << "  ";
    if (!line.is_inside) {
      text << "if ((unsigned)(y + " << line.distance << ") < " << of.height << "u) ";
    }
    text << "mask" << part.word << " |= columns " << (part.shift < 0 ? ">> " : "<< ")
         << (part.shift < 0 ? -part.shift : part.shift) << ";\n";
  }
}

void CudaPatches::cuda_load(SourceText& text, std::int64_t row) const {
  const Place place = place_of(row);
  text << "  const float b" << row << " = ";
  if (place.tap >= 0) {
    text << "(mask" << place.tap / k_word_bits << " & "
         << (std::int64_t{1} << (place.tap % k_word_bits)) << "u) == 0 ? 0.0f : ";
  }
  text << "__ldg(b + " << place.floats << ");\n";
}

}  // namespace spjit
