#include "plan/convolution.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// Floats of an image and its padding, so that bytes of its planes can be counted.
constexpr std::int64_t k_most_image_floats = (std::int64_t{1} << 61) - 1;

/// One dimension of it.
struct Axis {
  std::string_view name;  ///< "height"
  std::int64_t size;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t dilation;
  std::int64_t pads;  ///< both
};

Axis vertical(const Convolution& of) {
  return {"height",         of.height,          of.kernel_height,
          of.stride_height, of.dilation_height, of.pad_top + of.pad_bottom};
}
Axis horizontal(const Convolution& of) {
  return {"width",         of.width,          of.kernel_width,
          of.stride_width, of.dilation_width, of.pad_left + of.pad_right};
}

/// Sizes are below 2^31, so that nothing overflows.
std::int64_t output_of(const Axis& axis) {
  const std::int64_t left = axis.size + axis.pads - axis.dilation * (axis.kernel - 1) - 1;
  return left < 0 ? 0 : left / axis.stride + 1;
}

struct Member {
  std::string_view name;
  std::int64_t Convolution::*size;
  std::int64_t least;
};

constexpr std::array<Member, k_convolution_sizes> k_members = {
    {{"channels", &Convolution::channels, 1},
     {"height", &Convolution::height, 1},
     {"width", &Convolution::width, 1},
     {"kernel_height", &Convolution::kernel_height, 1},
     {"kernel_width", &Convolution::kernel_width, 1},
     {"stride_height", &Convolution::stride_height, 1},
     {"stride_width", &Convolution::stride_width, 1},
     {"pad_top", &Convolution::pad_top, 0},
     {"pad_left", &Convolution::pad_left, 0},
     {"pad_bottom", &Convolution::pad_bottom, 0},
     {"pad_right", &Convolution::pad_right, 0},
     {"dilation_height", &Convolution::dilation_height, 1},
     {"dilation_width", &Convolution::dilation_width, 1},
     {"groups", &Convolution::groups, 1}}};

void check_axis(const Axis& axis) {
  if (output_of(axis) > 0) return;
  throw InvalidArgument(fmt::format(
      "a kernel of {} {} with dilation {} does not fit into {} with padding of {} in all",
      axis.name, axis.kernel, axis.dilation, axis.size, axis.pads));
}

void check_product(std::string_view what, std::array<std::int64_t, 3> sizes, std::int64_t most) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size > most / product) {
      throw InvalidArgument(fmt::format("{} is {} x {} x {}; expected at most {} in all", what,
                                        sizes[0], sizes[1], sizes[2], most));
    }
    product *= size;
  }
}

std::int64_t taps_of(const Convolution& of) { return of.kernel_height * of.kernel_width; }

template <std::size_t Count>
std::array<std::int64_t, Count> read_sizes(JsonMembers& members, const char* name) {
  const json& list = members.at(name);
  if (!list.is_array() || list.size() != Count) {
    throw Error(fmt::format("\"{}\" of a convolution is {}; expected a list of {} integers", name,
                            quoted_json(list), Count));
  }
  std::array<std::int64_t, Count> sizes{};
  for (std::size_t i = 0; i < Count; ++i) {
    sizes[i] =
        json_integer(list[i], fmt::format("\"{}\" of a convolution", name), 0, k_max_dimension);
  }
  return sizes;
}

}  // namespace

std::int64_t Convolution::output_height() const noexcept { return output_of(vertical(*this)); }
std::int64_t Convolution::output_width() const noexcept { return output_of(horizontal(*this)); }

std::string to_string(const Convolution& convolution) {
  const Convolution& of = convolution;
  std::string text = fmt::format("{}x{}x{}, kernel {}x{}", of.channels, of.height, of.width,
                                 of.kernel_height, of.kernel_width);
  const auto pair = [&](const char* name, std::int64_t height, std::int64_t width) {
    if (height == 1 && width == 1) return;
    text += height == width ? fmt::format(", {} {}", name, height)
                            : fmt::format(", {} {}x{}", name, height, width);
  };
  pair("stride", of.stride_height, of.stride_width);
  if (of.pad_top == of.pad_left && of.pad_top == of.pad_bottom && of.pad_top == of.pad_right) {
    if (of.pad_top > 0) text += fmt::format(", pad {}", of.pad_top);
  } else {
    text += fmt::format(", pad {} {} {} {}", of.pad_top, of.pad_left, of.pad_bottom, of.pad_right);
  }
  pair("dilation", of.dilation_height, of.dilation_width);
  if (of.groups > 1) text += fmt::format(", groups {}", of.groups);
  return text;
}

void check_convolution(const Convolution& convolution) {
  for (const Member& member : k_members) {
    const std::int64_t size = convolution.*member.size;
    if (size >= member.least && size <= k_max_dimension) continue;
    throw InvalidArgument(fmt::format("{} of the convolution is {}; expected {} to {}", member.name,
                                      size, member.least, k_max_dimension));
  }
  if (convolution.channels % convolution.groups != 0) {
    throw InvalidArgument(
        fmt::format("groups of the convolution is {}; expected a divisor of {} "
                    "channels",
                    convolution.groups, convolution.channels));
  }
  check_axis(vertical(convolution));
  check_axis(horizontal(convolution));
  check_product("the output of the convolution",
                {convolution.output_height(), convolution.output_width(), 1}, k_max_dimension);
  const auto padded = [](const Axis& axis) { return axis.size + axis.pads; };
  check_product(
      "an image of the convolution with its padding",
      {convolution.channels, padded(vertical(convolution)), padded(horizontal(convolution))},
      k_most_image_floats);
  check_product("the weights of a filter with all channels",
                {convolution.channels, convolution.kernel_height, convolution.kernel_width},
                k_max_dimension);
}

void check_weights(const Convolution& convolution, std::int64_t rows, std::int64_t cols) {
  const std::int64_t expected = convolution.channels / convolution.groups * taps_of(convolution);
  if (cols != expected) {
    throw InvalidArgument(
        fmt::format("A has {} columns; expected {}: {} channels a group x kernel {} x {}", cols,
                    expected, convolution.channels / convolution.groups, convolution.kernel_height,
                    convolution.kernel_width));
  }
  if (rows % convolution.groups != 0) {
    throw InvalidArgument(
        fmt::format("A has {} rows; expected a multiple of {} groups", rows, convolution.groups));
  }
}

bool is_pointwise(const Convolution& convolution) noexcept {
  const Convolution& of = convolution;
  return taps_of(of) == 1 && of.stride_height == 1 && of.stride_width == 1 && of.pad_top == 0 &&
         of.pad_left == 0 && of.pad_bottom == 0 && of.pad_right == 0;
}

CsrMatrix with_all_channels(const CsrMatrix& weights, const Convolution& convolution,
                            const Cancellation& cancel) {
  CsrMatrix all = weights;
  all.cols = weights.cols * convolution.groups;
  const std::int64_t rows_a_group = weights.rows / convolution.groups;
  for_each_piece(weights.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      // Columns stay below all.cols, which check_convolution() keeps within 2^31 - 1.
      const std::int64_t first = row / rows_a_group * weights.cols;
      for (auto i = to_size(weights.row_ptrs[to_size(row)]);
           i < to_size(weights.row_ptrs[to_size(row) + 1]); ++i) {
        all.col_idxs[i] = static_cast<std::int32_t>(weights.col_idxs[i] + first);
      }
    }
  });
  return all;
}

PatchElement patch_element(const Convolution& convolution, std::int64_t k,
                           std::int64_t j) noexcept {
  const Convolution& of = convolution;
  const std::int64_t channel = k / taps_of(of);
  const std::int64_t tap = k % taps_of(of);
  const std::int64_t columns = of.output_width();
  const std::int64_t y =
      j / columns * of.stride_height - of.pad_top + tap / of.kernel_width * of.dilation_height;
  const std::int64_t x =
      j % columns * of.stride_width - of.pad_left + tap % of.kernel_width * of.dilation_width;
  const bool inside = y >= 0 && y < of.height && x >= 0 && x < of.width;
  return {channel, inside ? y * of.width + x : -1};
}

std::array<std::int64_t, k_convolution_sizes> sizes_of(const Convolution& convolution) noexcept {
  std::array<std::int64_t, k_convolution_sizes> sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = convolution.*k_members[i].size;
  return sizes;
}

Convolution convolution_of(const std::array<std::int64_t, k_convolution_sizes>& sizes) noexcept {
  Convolution convolution;
  for (std::size_t i = 0; i < sizes.size(); ++i) convolution.*k_members[i].size = sizes[i];
  return convolution;
}

void add_to_key(const Convolution& convolution, KeyBuilder& key) {
  for (const Member& member : k_members) key.field(member.name, convolution.*member.size);
}

json to_json(const Convolution& convolution) {
  const Convolution& of = convolution;
  return {{"channels", of.channels},
          {"height", of.height},
          {"width", of.width},
          {"kernel", {of.kernel_height, of.kernel_width}},
          {"stride", {of.stride_height, of.stride_width}},
          {"pad", {of.pad_top, of.pad_left, of.pad_bottom, of.pad_right}},
          {"dilation", {of.dilation_height, of.dilation_width}},
          {"groups", of.groups}};
}

Convolution read_convolution(const json& object) {
  JsonMembers members(object, "\"convolution\" of a problem");
  Convolution of;
  of.channels = members.integer("channels", 1, k_max_dimension);
  of.height = members.integer("height", 1, k_max_dimension);
  of.width = members.integer("width", 1, k_max_dimension);
  const auto kernel = read_sizes<2>(members, "kernel");
  of.kernel_height = kernel[0];
  of.kernel_width = kernel[1];
  const auto stride = read_sizes<2>(members, "stride");
  of.stride_height = stride[0];
  of.stride_width = stride[1];
  const auto pad = read_sizes<4>(members, "pad");
  of.pad_top = pad[0];
  of.pad_left = pad[1];
  of.pad_bottom = pad[2];
  of.pad_right = pad[3];
  const auto dilation = read_sizes<2>(members, "dilation");
  of.dilation_height = dilation[0];
  of.dilation_width = dilation[1];
  of.groups = members.integer("groups", 1, k_max_dimension);
  members.finish();
  check_convolution(of);
  return of;
}

}  // namespace spjit
