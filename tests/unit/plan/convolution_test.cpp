#include "plan/convolution.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "plan/problem.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using nlohmann::json;
using spjit::Convolution;
using spjit::CsrMatrix;
using spjit::Extent;
using spjit::Layout;
using spjit::Operation;
using spjit::Problem;
using spjit::testing_support::index;
using spjit::testing_support::padded_3x3;

constexpr std::int64_t k_largest_size = (std::int64_t{1} << 31) - 1;

/// Every member is another than by default; 4 x 6 pixels come out.
Convolution whole_convolution() {
  return {.channels = 6,
          .height = 11,
          .width = 12,
          .kernel_height = 3,
          .kernel_width = 2,
          .stride_height = 2,
          .stride_width = 3,
          .pad_top = 1,
          .pad_left = 2,
          .pad_bottom = 3,
          .pad_right = 9,
          .dilation_height = 4,
          .dilation_width = 5,
          .groups = 2};
}

/// What is done to it.
template <class Change>
Convolution changed(const Change& change, Convolution of = whole_convolution()) {
  change(of);
  return of;
}

std::string convolution_refusal(const Convolution& of) {
  try {
    spjit::check_convolution(of);
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::string weights_refusal(std::int64_t rows, std::int64_t cols) {
  try {
    spjit::check_weights(whole_convolution(), rows, cols);
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// All weights of so many filters.
CsrMatrix full_weights(std::int64_t filters, std::int64_t columns) {
  CsrMatrix matrix;
  matrix.rows = filters;
  matrix.cols = columns;
  for (std::int64_t row = 0; row < filters; ++row) {
    for (std::int64_t col = 0; col < columns; ++col) {
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(static_cast<float>(row * columns + col + 1));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

Problem problem_of_images(const Convolution& of = whole_convolution(), std::int64_t filters = 4) {
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.a = full_weights(filters, of.channels / of.groups * of.kernel_height * of.kernel_width);
  problem.convolution = of;
  return problem;
}

std::string problem_refusal(const Problem& problem) {
  try {
    static_cast<void>(spjit::checked_problem(problem));
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::string key_of_problem(const Problem& problem) {
  spjit::KeyBuilder key;
  add_to_key(problem, key);
  return key.hex();
}

/// Of how many places a kernel has along one dimension, one by one.
std::int64_t counted_places(std::int64_t padded, std::int64_t kernel, std::int64_t stride,
                            std::int64_t dilation) {
  std::int64_t places = 0;
  for (std::int64_t at = 0; at + dilation * (kernel - 1) < padded; at += stride) ++places;
  return places;
}

TEST(ConvolutionSizes, OfTheOutputAreThePlacesOfTheKernel) {
  for (std::int64_t size = 1; size < 9; ++size) {
    for (std::int64_t kernel = 1; kernel < 6; ++kernel) {
      for (std::int64_t stride = 1; stride < 5; ++stride) {
        for (std::int64_t dilation = 1; dilation < 4; ++dilation) {
          const Convolution of{.channels = 1,
                               .height = size,
                               .width = 2 * size,
                               .kernel_height = kernel,
                               .kernel_width = kernel + 1,
                               .stride_height = stride,
                               .stride_width = stride + 1,
                               .pad_top = 1,
                               .pad_left = 0,
                               .pad_bottom = 2,
                               .pad_right = 5,
                               .dilation_height = dilation,
                               .dilation_width = dilation + 1};
          ASSERT_EQ(of.output_height(), counted_places(size + 3, kernel, stride, dilation))
              << to_string(of);
          ASSERT_EQ(of.output_width(),
                    counted_places(2 * size + 5, kernel + 1, stride + 1, dilation + 1))
              << to_string(of);
        }
      }
    }
  }
}

TEST(ConvolutionSizes, OfLayersOfResNet) {
  const Convolution stem{.channels = 3,
                         .height = 224,
                         .width = 224,
                         .kernel_height = 7,
                         .kernel_width = 7,
                         .stride_height = 2,
                         .stride_width = 2,
                         .pad_top = 3,
                         .pad_left = 3,
                         .pad_bottom = 3,
                         .pad_right = 3};
  const Convolution down{
      .channels = 256, .height = 56, .width = 56, .stride_height = 2, .stride_width = 2};

  EXPECT_EQ(stem.output_height(), 112);
  EXPECT_EQ(stem.output_width(), 112);
  EXPECT_EQ(down.output_height(), 28);
}

TEST(ConvolutionText, LeavesOutWhatIsUsual) {
  const Convolution same = padded_3x3(64, 56, 28);

  EXPECT_EQ(to_string(Convolution{.channels = 7, .height = 2, .width = 3}), "7x2x3, kernel 1x1");
  EXPECT_EQ(to_string(same), "64x56x28, kernel 3x3, pad 1");
  EXPECT_EQ(to_string(changed([](Convolution& c) { c.stride_height = c.stride_width = 2; }, same)),
            "64x56x28, kernel 3x3, stride 2, pad 1");
  EXPECT_EQ(to_string(whole_convolution()),
            "6x11x12, kernel 3x2, stride 2x3, pad 1 2 3 9, dilation 4x5, groups 2");
}

TEST(CheckConvolution, NamesTheMemberThatIsOutOfItsRange) {
  struct Named {
    const char* name;
    std::int64_t Convolution::*size;
    std::int64_t least;
  };
  const std::vector<Named> members = {{"channels", &Convolution::channels, 1},
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
                                      {"groups", &Convolution::groups, 1}};
  ASSERT_EQ(members.size(), spjit::k_convolution_sizes);
  EXPECT_EQ(convolution_refusal(whole_convolution()), "");
  for (const Named& member : members) {
    for (const std::int64_t wrong :
         {member.least - 1, std::numeric_limits<std::int64_t>::min(), k_largest_size + 1,
          std::numeric_limits<std::int64_t>::max()}) {
      EXPECT_EQ(convolution_refusal(changed([&](Convolution& c) { c.*member.size = wrong; })),
                std::string(member.name) + " of the convolution is " + std::to_string(wrong) +
                    "; expected " + std::to_string(member.least) + " to 2147483647");
    }
  }
}

TEST(CheckConvolution, RefusesGroupsThatDoNotDivideAndKernelsThatDoNotFit) {
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.groups = 4; })),
            "groups of the convolution is 4; expected a divisor of 6 channels");
  // 15 rows with padding: 4 * (4 - 1) + 1 of them is as many as there can be.
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.kernel_height = 4; })), "");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.kernel_height = 5; })),
            "a kernel of height 5 with dilation 4 does not fit into 11 with padding of 4 in all");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.dilation_width = 22; })), "");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.dilation_width = 23; })),
            "a kernel of width 2 with dilation 23 does not fit into 12 with padding of 11 in all");
}

TEST(CheckConvolution, RefusesSizesWhoseProductOverflows) {
  const Convolution large{.channels = 1, .height = k_largest_size, .width = 1, .stride_height = 1};
  EXPECT_EQ(convolution_refusal(large), "");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.width = 2; }, large)),
            "the output of the convolution is 2147483647 x 2 x 1; expected at most 2147483647 in "
            "all");
  // Nearly 2^61 floats of which few are read.
  const Convolution wide{.channels = 1,
                         .height = std::int64_t{1} << 30,
                         .width = (std::int64_t{1} << 31) - 8,
                         .stride_height = 1 << 20,
                         .stride_width = 1 << 20};
  EXPECT_EQ(convolution_refusal(wide), "");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.channels = 2; }, wide)),
            "an image of the convolution with its padding is 2 x 1073741824 x 2147483640; "
            "expected at most 2305843009213693951 in all");
  EXPECT_EQ(convolution_refusal(changed([](Convolution& c) { c.pad_bottom = 1 << 10; }, wide)),
            "an image of the convolution with its padding is 1 x 1073742848 x 2147483640; "
            "expected at most 2305843009213693951 in all");
  EXPECT_EQ(
      convolution_refusal(
          {.channels = 1 << 30, .height = 4, .width = 4, .kernel_height = 2, .kernel_width = 1}),
      "the weights of a filter with all channels is 1073741824 x 2 x 1; expected at most "
      "2147483647 in all");
}

TEST(CheckConvolution, RefusesAReachBeyondWhatCanBeCounted) {
  // One pixel comes out, and its two rows and columns of taps are 2^31 apart.
  const Convolution far{.channels = 1,
                        .height = 1,
                        .width = 1,
                        .kernel_height = 2,
                        .kernel_width = 2,
                        .pad_top = k_largest_size,
                        .pad_left = k_largest_size,
                        .dilation_height = k_largest_size,
                        .dilation_width = k_largest_size};

  EXPECT_EQ(convolution_refusal(far),
            "an image of the convolution with its padding is 1 x 2147483648 x 2147483648; expected "
            "at most 2305843009213693951 in all");
}

TEST(CheckWeights, AreOfOneGroupsChannelsAndAMultipleOfGroups) {
  EXPECT_EQ(weights_refusal(4, 18), "");
  EXPECT_EQ(weights_refusal(0, 18), "");
  for (const std::int64_t cols : {0, 17, 19, 36}) {
    EXPECT_EQ(weights_refusal(4, cols), "A has " + std::to_string(cols) +
                                            " columns; expected 18: 3 channels a group x kernel 3 "
                                            "x 2");
  }
  EXPECT_EQ(weights_refusal(5, 18), "A has 5 rows; expected a multiple of 2 groups");
}

TEST(WithAllChannels, PutsEachGroupAtItsChannels) {
  const Convolution of = whole_convolution();
  const CsrMatrix weights = full_weights(4, 18);

  const CsrMatrix all = with_all_channels(weights, of);

  EXPECT_EQ(all.rows, 4);
  EXPECT_EQ(all.cols, 36);
  EXPECT_EQ(all.row_ptrs, weights.row_ptrs);
  EXPECT_EQ(all.values, weights.values);
  for (std::int64_t i = 0; i < all.nnz(); ++i) {
    EXPECT_EQ(all.col_idxs[index(i)], weights.col_idxs[index(i)] + (i < 36 ? 0 : 18)) << i;
  }
}

TEST(WithAllChannels, CanBeCancelled) {
  std::stop_source stop;
  stop.request_stop();

  EXPECT_THROW(static_cast<void>(with_all_channels(full_weights(4, 18), whole_convolution(),
                                                   {.deadline = {}, .stop = stop.get_token()})),
               spjit::Cancelled);
}

TEST(PatchElements, AreWhereALoopFindsThem) {
  Convolution small = whole_convolution();
  small.groups = 1;
  const Convolution unit{.channels = 2, .height = 3, .width = 4};
  const Convolution padded = changed(
      [](Convolution& c) {
        c.kernel_height = c.kernel_width = 2;
        c.pad_top = 4;
        c.pad_left = 1;
        c.pad_bottom = 0;
        c.pad_right = 3;
      },
      unit);
  for (const Convolution& of : {small, unit, padded}) {
    std::int64_t k = 0;
    for (std::int64_t c = 0; c < of.channels; ++c) {
      for (std::int64_t r = 0; r < of.kernel_height; ++r) {
        for (std::int64_t s = 0; s < of.kernel_width; ++s, ++k) {
          std::int64_t j = 0;
          for (std::int64_t p = 0; p < of.output_height(); ++p) {
            for (std::int64_t q = 0; q < of.output_width(); ++q, ++j) {
              const std::int64_t y = p * of.stride_height - of.pad_top + r * of.dilation_height;
              const std::int64_t x = q * of.stride_width - of.pad_left + s * of.dilation_width;
              const bool is_inside = 0 <= y && y < of.height && 0 <= x && x < of.width;
              const spjit::PatchElement element = patch_element(of, k, j);
              ASSERT_EQ(element.channel, c) << to_string(of) << " " << k << " " << j;
              ASSERT_EQ(element.pixel, is_inside ? y * of.width + x : -1)
                  << to_string(of) << " " << k << " " << j;
            }
          }
        }
      }
    }
  }
}

TEST(Pointwise, IsOneTapWithoutStrideAndPadding) {
  const Convolution pointwise{.channels = 4, .height = 5, .width = 6, .dilation_height = 3};
  EXPECT_TRUE(is_pointwise(pointwise));
  for (std::int64_t Convolution::*size :
       {&Convolution::kernel_height, &Convolution::kernel_width, &Convolution::stride_height,
        &Convolution::stride_width}) {
    EXPECT_FALSE(is_pointwise(changed([&](Convolution& c) { c.*size = 2; }, pointwise)));
  }
  for (std::int64_t Convolution::*size : {&Convolution::pad_top, &Convolution::pad_left,
                                          &Convolution::pad_bottom, &Convolution::pad_right}) {
    EXPECT_FALSE(is_pointwise(changed([&](Convolution& c) { c.*size = 1; }, pointwise)));
  }
}

TEST(ConvolutionJson, IsReadAsItWasWritten) {
  const json object = to_json(whole_convolution());

  EXPECT_EQ(spjit::read_convolution(json::parse(object.dump())), whole_convolution());
  EXPECT_EQ(object, (json{{"channels", 6},
                          {"height", 11},
                          {"width", 12},
                          {"kernel", {3, 2}},
                          {"stride", {2, 3}},
                          {"pad", {1, 2, 3, 9}},
                          {"dilation", {4, 5}},
                          {"groups", 2}}));
}

TEST(ConvolutionJson, EveryMemberMustBeThereAndOfItsKind) {
  const json good = to_json(whole_convolution());
  const auto said = [](const json& object) {
    try {
      static_cast<void>(spjit::read_convolution(object));
    } catch (const spjit::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const auto& [name, value] : good.items()) {
    json without = good;
    without.erase(name);
    EXPECT_NE(said(without).find("has no \"" + name + "\""), std::string::npos) << said(without);
    for (const json& wrong :
         {json("text"), json(1.5), json::array(), json(-1), json(nullptr), json{1, 1, 1},
          json{1.5, 1}, json{-1, -1, -1, -1}, json{-1, -1}, json{"3", "3"}}) {
      json object = good;
      object[name] = wrong;
      EXPECT_NE(said(object), "") << name << " = " << wrong;
      EXPECT_EQ(said(object).find('\n'), std::string::npos);
    }
  }
  json more = good;
  more["images"] = 1;
  EXPECT_NE(said(more).find("this spjit knows"), std::string::npos);
  json apart = good;
  apart["groups"] = 5;
  EXPECT_EQ(said(apart), "groups of the convolution is 5; expected a divisor of 6 channels");
  json list = good;
  list["pad"] = {1, 2};
  EXPECT_EQ(said(list), "\"pad\" of a convolution is [1,2]; expected a list of 4 integers");
}

TEST(ConvolutionWords, AreAllMembersInTheirOrder) {
  const auto sizes = sizes_of(whole_convolution());

  EXPECT_EQ(sizes, (std::array<std::int64_t, 14>{6, 11, 12, 3, 2, 2, 3, 1, 2, 3, 9, 4, 5, 2}));
  EXPECT_EQ(spjit::convolution_of(sizes), whole_convolution());
}

TEST(ConvolutionKey, DiffersForEachMember) {
  const auto key_of_sizes = [](const Convolution& of) {
    spjit::KeyBuilder key;
    add_to_key(of, key);
    return key.hex();
  };
  std::set<std::string> keys = {key_of_sizes(whole_convolution())};
  for (std::size_t i = 0; i < spjit::k_convolution_sizes; ++i) {
    auto sizes = sizes_of(whole_convolution());
    sizes[i] += 1;
    keys.insert(key_of_sizes(spjit::convolution_of(sizes)));
  }
  EXPECT_EQ(keys.size(), spjit::k_convolution_sizes + 1);
}

TEST(ConvolutionKey, IsPartOfAProblems) {
  // The same sizes of all operands; what is read of the image differs.
  Convolution of{.channels = 2,
                 .height = 4,
                 .width = 4,
                 .kernel_height = 2,
                 .kernel_width = 2,
                 .pad_top = 1,
                 .pad_left = 1};
  const Problem left = spjit::checked_problem(problem_of_images(of));
  std::swap(of.pad_top, of.pad_bottom);
  const Problem other = spjit::checked_problem(problem_of_images(of));

  EXPECT_EQ(left.n, other.n);
  EXPECT_NE(key_of_problem(left), key_of_problem(other));
}

TEST(CheckedConvolution, HasAnNAndOneGroup) {
  const Problem grouped = problem_of_images();

  const Problem checked = spjit::checked_problem(grouped);

  EXPECT_EQ(checked.operation, Operation::conv2d);
  EXPECT_EQ(checked.n, Extent(4 * 6));
  EXPECT_EQ(checked.a->cols, 36);
  EXPECT_EQ(checked.convolution, changed([](Convolution& c) { c.groups = 1; }));
  EXPECT_EQ(checked.b_rows(), 6);
  EXPECT_EQ(checked.b_columns(), 11 * 12);
  EXPECT_EQ(checked.ldb(), 11 * 12);
  EXPECT_EQ(checked.ldc(), 24);
  EXPECT_TRUE(spjit::features_of(checked).has(spjit::ProblemFeature::convolution));
  EXPECT_EQ(to_string(spjit::features_of(checked)), "a convolution");
}

TEST(CheckedConvolution, IsTheSameWhenItIsCheckedAgain) {
  for (const bool runtime_n : {false, true}) {
    Problem problem = problem_of_images();
    problem.n.runtime = runtime_n;
    const Problem once = spjit::checked_problem(problem);

    const Problem twice = spjit::checked_problem(once);

    EXPECT_EQ(key_of_problem(once), key_of_problem(twice));
    EXPECT_EQ(&*once.a, &*twice.a);
    EXPECT_EQ(once.n, twice.n);
    EXPECT_EQ(once.convolution, twice.convolution);
  }
}

TEST(CheckedConvolution, TakesAnNThatIsThePixelsAndNoOther) {
  Problem problem = problem_of_images();
  problem.n = 24;
  EXPECT_EQ(problem_refusal(problem), "");
  problem.n = Extent::at_run_time(24);
  EXPECT_EQ(problem_refusal(problem), "");
  for (const std::int64_t n : {-1, 1, 23, 25}) {
    problem.n = n;
    EXPECT_EQ(problem_refusal(problem), "n is " + std::to_string(n) +
                                            "; expected 0 or the 4 x 6 pixels of the "
                                            "convolution's output");
  }
}

TEST(CheckedConvolution, OfOneTapIsAProduct) {
  const Convolution pointwise{.channels = 6, .height = 3, .width = 5, .groups = 2};
  Problem problem = problem_of_images(pointwise);
  problem.b.layout = problem.c.layout = Layout::tokens_major;

  const Problem checked = spjit::checked_problem(problem);

  EXPECT_EQ(checked.operation, Operation::spmm);
  EXPECT_FALSE(checked.convolution);
  EXPECT_EQ(checked.n, Extent(15));
  EXPECT_EQ(checked.a->cols, 6);
  EXPECT_EQ(checked.ldb(), 6);
  Problem product = checked;
  product.n = 15;
  EXPECT_EQ(key_of_problem(spjit::checked_problem(product)), key_of_problem(checked));
}

TEST(CheckedConvolution, RefusesWhatIsNone) {
  Problem none = problem_of_images();
  none.convolution.reset();
  Problem product = problem_of_images();
  product.operation = Operation::spmm;
  Problem unfit = problem_of_images();
  unfit.convolution->kernel_height = 9;
  Problem columns = problem_of_images();
  columns.a = full_weights(4, 17);
  Problem rows = problem_of_images();
  rows.a = full_weights(3, 18);

  EXPECT_EQ(problem_refusal(none), "the operation is conv2d; expected Problem::convolution");
  EXPECT_EQ(problem_refusal(product), "Problem::convolution is set, but the operation is spmm");
  EXPECT_EQ(problem_refusal(unfit),
            "a kernel of height 9 with dilation 4 does not fit into 11 with padding of 4 in all");
  EXPECT_EQ(problem_refusal(columns).substr(0, 17), "A has 17 columns;");
  EXPECT_EQ(problem_refusal(rows), "A has 3 rows; expected a multiple of 2 groups");
}

TEST(CheckedConvolution, HasNoPanels) {
  const std::string refusal = "a convolution has no panels; expected features or tokens as layouts";
  Problem width = problem_of_images();
  width.panel_columns = 16;
  Problem x = problem_of_images();
  x.b.layout = Layout::panel_major;
  Problem y = problem_of_images();
  y.c.layout = Layout::panel_major;

  for (const Problem& problem : {width, x, y}) EXPECT_EQ(problem_refusal(problem), refusal);
}

TEST(CheckedConvolution, LeadingDimensionsAreOfTheImage) {
  const auto said = [](Layout layout, std::int64_t ldb, std::int64_t ldc) {
    Problem problem = problem_of_images();
    problem.b = {ldb, layout};
    problem.c = {ldc, layout};
    return problem_refusal(problem);
  };
  EXPECT_EQ(said(Layout::row_major, 132, 24), "");
  EXPECT_EQ(said(Layout::row_major, 131, 24),
            "ldb is 131; expected 0 or at least the pixels of a channel, 132");
  EXPECT_EQ(said(Layout::row_major, 132, 23),
            "ldc is 23; expected 0 or at least the pixels of a channel, 24");
  EXPECT_EQ(said(Layout::tokens_major, 1, 4), "");  // pixels of X may overlap
  EXPECT_EQ(said(Layout::tokens_major, 6, 3),
            "ldc is 3; expected 0 or at least the 4 features of a token");
  EXPECT_EQ(said(Layout::tokens_major, -1, 4),
            "ldb is -1; expected 0 or at least the 6 features of a token");
}

TEST(CheckedConvolution, IsReadFromJsonAsItWasWritten) {
  Problem problem = problem_of_images();
  problem.n.runtime = true;
  problem.b.layout = Layout::tokens_major;
  const Problem checked = spjit::checked_problem(problem);
  const json object = json::parse(to_json(checked).dump());

  const Problem read = spjit::read_problem(object, checked.a);

  EXPECT_EQ(object.at("operation"), "conv2d");
  EXPECT_EQ(read.convolution, checked.convolution);
  EXPECT_EQ(key_of_problem(read), key_of_problem(checked));
  json product = object;
  product["operation"] = "spmm";
  EXPECT_THROW(static_cast<void>(spjit::read_problem(product, checked.a)), spjit::Error);
  json none = object;
  none["convolution"] = nullptr;
  EXPECT_THROW(static_cast<void>(spjit::read_problem(none, checked.a)), spjit::Error);
}

TEST(CheckedConvolution, OfRuntimeSizesIsRefusedByUnrolledGpuCodeInOneLine) {
  Problem problem = problem_of_images();
  problem.n.runtime = true;
  spjit::CompileOptions options;
  options.target = spjit::Target::parse("sm_90");
  options.policy.family = "unrolled";
  spjit::Compiler compiler(options, spjit::testing_support::uncached());
  try {
    static_cast<void>(compiler.compile(problem));
    FAIL() << "taken";
  } catch (const spjit::NotSupported& error) {
    EXPECT_NE(std::string(error.what()).find("a convolution"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

}  // namespace
