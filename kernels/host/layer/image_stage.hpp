#pragma once

/// @file
/// An image of a convolution where kernels of the host read it: as planes, in which every row of B
/// is a run of floats.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/row_ranges.hpp"
#include "kernels/host/layer/column_cut.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/convolution.hpp"
#include "spjit/operand.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// How columns of images are computed.
struct ImageColumns {
  std::int64_t at_once;  ///< at most, a multiple of 16, if groups of more would not read less twice
  /// Columns are pixels of the output alone, and all of an image are computed at once, those of
  /// several small images together. Else columns are those of an image in rows `pitch` apart.
  bool in_runs = false;
  int threads = 1;  ///< of more than one group, each has as many

  friend bool operator==(const ImageColumns&, const ImageColumns&) = default;
};

/// Where pixels of the output and elements of B are, for images of one size.
///
/// There is a plane for each channel and each remainder of rows and columns by the strides that a
/// tap has. A plane is the image with its padding and every stride-th row and column alone, so that
/// the row (c, r, s) of B is a run of it, which begins at places()[(c, r, s)]. Rows of a plane are
/// `pitch` floats apart and share the padding between them. The place of a pixel (p, q) of the
/// output is p * pitch + q.
///
/// Columns are places; those from the output's width on are computed and not stored. Or, in runs,
/// they are pixels: each row of the output is a run, and images follow one another.
class ImagePlan {
 public:
  /// Precondition: checked.
  ImagePlan(const Convolution& convolution, const ImageColumns& columns);

  [[nodiscard]] const Convolution& convolution() const noexcept { return of_; }
  /// The columns that it was made for.
  [[nodiscard]] const ImageColumns& made_for() const noexcept { return made_for_; }
  /// All of an image's.
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  /// How they are cut into those that are computed at once.
  [[nodiscard]] const ColumnCut& cut() const noexcept { return cut_; }
  /// More than one only in runs.
  [[nodiscard]] std::int64_t images_at_once() const noexcept { return images_at_once_; }
  [[nodiscard]] std::int64_t pitch() const noexcept { return pitch_; }
  /// The runs of columns of images_at_once() images, whose planes are floats(channels) apart. None
  /// unless columns are in runs.
  [[nodiscard]] std::span<const ColumnRun> runs() const noexcept { return runs_; }
  /// Whether columns are the pixels of the output, each one.
  [[nodiscard]] static bool has_pixels_alone(const Convolution& convolution) noexcept;
  /// Floats of the planes of some channels. Throws Error if they cannot be counted.
  [[nodiscard]] std::int64_t floats(std::int64_t channels) const;
  /// [channels * taps] floats from the first plane on.
  [[nodiscard]] const std::int64_t* places() const noexcept { return places_.data(); }

  /// Not of columns in runs: calls `visit` with the first column and the pixels that it and those
  /// after it are, for each row of the output that some columns [begin, end) have pixels of, or for
  /// all if rows follow one another.
  template <class Visit>
  void for_each_row_of_pixels(const RowRange& columns, const Visit& visit) const {
    const std::int64_t width = of_.output_width();
    if (pitch_ == width) {
      visit(columns.begin, columns);
      return;
    }
    for (std::int64_t at = columns.begin; at < columns.end;) {
      const std::int64_t row = at / pitch_;
      const std::int64_t first = row * pitch_;
      const std::int64_t end = std::min(first + width, columns.end);
      const std::int64_t pixel = row * width + at - first;
      if (at < end) visit(at, RowRange{pixel, pixel + end - at});
      at = first + pitch_;
    }
  }

  /// A part of an image to stage: the channels and columns of B that it is needed for.
  struct Part {
    RowRange channels;
    RowRange columns;
  };
  /// Copies that of an image of f32, bf16 or f16 into its planes, which begin at `to`, aligned to
  /// 64 bytes; nothing else of `x` is read. Preconditions: this CPU has `isa`; `x` has ld and
  /// layout.
  void stage(const ConstOperand& x, const Part& part, float* to, HostIsa isa) const;

 private:
  /// A remainder by the stride, of rows or of columns.
  struct Phase {
    std::int64_t remainder;
    std::int64_t begin;  ///< of a row of the plane, the first place with an element of the image
    std::int64_t end;    ///< one past the last
  };
  /// One dimension.
  struct Axis {
    std::vector<Phase> phases;
    std::vector<std::int64_t> phase_of;  ///< [kernel]
    std::vector<std::int64_t> shift_of;  ///< [kernel] places that a tap is further
    std::int64_t reach = 0;              ///< the largest shift
  };
  struct AxisSizes {
    std::int64_t size;
    std::int64_t kernel;
    std::int64_t stride;
    std::int64_t dilation;
    std::int64_t pad;
    std::int64_t places;  ///< of a row of the output
  };
  /// A run of places of one row of planes, which the image has or which are padding.
  struct Run;

  [[nodiscard]] static Axis axis_of(const AxisSizes& sizes);
  template <class Visit>
  void for_each_run(const Phase& rows, const Phase& columns, const RowRange& range,
                    const Visit& visit) const;
  /// Some channels, and all places of a range.
  struct PlacesOfChannels {
    RowRange channels;
    RowRange places;
  };
  void stage_features(const ConstOperand& image, const PlacesOfChannels& part, float* to,
                      HostIsa isa) const;
  void stage_tokens(const ConstOperand& image, const PlacesOfChannels& part, float* to,
                    HostIsa isa) const;
  void plan_planes();
  void add_places();
  void add_runs();
  [[nodiscard]] std::int64_t planes_a_channel() const noexcept {
    return std::ssize(vertical_.phases) * std::ssize(horizontal_.phases);
  }

  Convolution of_;
  ImageColumns made_for_;
  Axis vertical_;
  Axis horizontal_;
  std::int64_t pitch_ = 1;
  std::int64_t columns_ = 1;
  ColumnCut cut_;
  std::int64_t images_at_once_ = 1;
  std::int64_t reach_ = 0;  ///< floats that a row of B has beyond its columns
  std::int64_t plane_ = 0;  ///< floats from one to the next
  std::vector<std::int64_t> places_;
  std::vector<ColumnRun> runs_;
};

}  // namespace spjit
