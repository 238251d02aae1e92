#include "tools/options/problem_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/number_text.hpp"
#include "base/printable.hpp"
#include "plan/convolution.hpp"
#include "plan/formula.hpp"
#include "plan/operation.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"

namespace spjit::cli {
namespace {

/// Columns that `any` stands for where a choice has to be made for some.
constexpr std::int64_t k_typical_columns = 128;
/// What --scale and --bias say where no file is named.
constexpr const char* k_made_up = "made-up numbers";

/// The height of an image that --conv CHANNELSxLENGTH says, until check_problem() makes it 1.
constexpr std::int64_t k_sequence = -1;

/// "512", "any", "any:128".
Extent parse_columns(std::string_view text) {
  constexpr std::string_view k_any = "any";
  constexpr std::string_view k_any_of = "any:";
  if (text == k_any) return Extent::at_run_time(k_typical_columns);
  const bool is_any = text.starts_with(k_any_of);
  const auto columns =
      read_number<std::int64_t>(text.substr(is_any ? k_any_of.size() : std::size_t{0}));
  if (!columns || *columns < 1 || *columns > k_most_count) {
    throw InvalidArgument(
        fmt::format("--n: expected a whole number from 1 to {}, any, or any:N with such a number, "
                    "not '{}'",
                    k_most_count, printable(text, k_longest_shown)));
  }
  return is_any ? Extent::at_run_time(*columns) : Extent(*columns);
}

/// Whole numbers between 'x', as many as one of `counts`.
std::vector<std::int64_t> parse_sizes(const char* flag, std::string_view text,
                                      const std::vector<std::size_t>& counts,
                                      const char* expected) {
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const auto size = read_number<std::int64_t>(text.substr(begin, end - begin));
    if (!size || *size < 0 || *size > k_most_count) break;
    sizes.push_back(*size);
    begin = end + 1;
    if (end == text.size() && std::ranges::find(counts, sizes.size()) != counts.end()) return sizes;
  }
  throw InvalidArgument(
      fmt::format("{}: expected {}, not '{}'", flag, expected, printable(text, k_longest_shown)));
}

using Sizes = std::vector<std::int64_t>;

/// Of one size for all sides, two for height and width, or four from the top on.
void set_padding(Convolution& of, const Sizes& sizes) {
  const bool is_each = sizes.size() == 4;
  of.pad_top = sizes[0];
  of.pad_left = is_each ? sizes[1] : sizes.back();
  of.pad_bottom = is_each ? sizes[2] : sizes[0];
  of.pad_right = sizes.back();
}

void add_numerics(CLI::App& command, Numerics& numerics) {
  command
      .add_option_function<std::string>(
          "--types",
          [&numerics](const std::string& text) {
            const Numerics types = parse_types(text);
            numerics.a = types.a;
            numerics.b = types.b;
            numerics.c = types.c;
          },
          "Types of A, B and C, each f32, bf16, f16, i32, i8 or u8, of A also i4. A's values must "
          "be exact in its type. Fast on a CPU: sums in order with B and C of f32, bf16 or f16, "
          "and "
          "exact sums of bytes. Default: f32,f32,f32.")
      ->type_name("A,B,C");
  command
      .add_option_function<std::string>(
          "--accumulate",
          [&numerics](const std::string& text) { numerics.accumulate = parse_accumulate(text); },
          "The promise on sums: ordered (fp32, the same bits everywhere), integer (exact) or "
          "bounded:EPS (at most EPS * sum |a b| off). Default: ordered.")
      ->type_name("PROMISE");
  command
      .add_option_function<std::string>(
          "--quantize",
          [&numerics](const std::string& text) {
            numerics.quantization = parse_quantization(text);
          },
          "How B becomes the bytes of integer sums: tensor (B of f32, u8 as ONNX's "
          "DynamicQuantizeLinear), token (B of f32, symmetric i8 of each token) or given (B of i8 "
          "or u8, and a run brings its scale and zero point). Default: none.")
      ->type_name("HOW");
}

void add_convolution(CLI::App& command, Problem& problem) {
  const auto add = [&](const char* flag, std::vector<std::size_t> counts, const char* expected,
                       auto set, const char* what) {
    command
        .add_option_function<std::string>(
            flag,
            [&problem, flag, counts = std::move(counts), expected, set](const std::string& text) {
              if (!problem.convolution) problem.convolution.emplace();
              set(*problem.convolution, parse_sizes(flag, text, counts, expected));
            },
            what)
        ->type_name("SIZES");
  };
  add(
      "--conv", {2, 3},
      "the image's channels, height and width, as 64x56x56, or channels and length, as 64x100",
      [&problem](Convolution& of, const Sizes& sizes) {
        problem.operation = Operation::conv2d;
        of.channels = sizes[0];
        of.height = sizes.size() == 3 ? sizes[1] : k_sequence;
        of.width = sizes.back();
      },
      "A is the weights [filters x channels * kernel] of a 2-D convolution of images CxHxW, or of "
      "a 1-D one of CxL, which is one of images of height 1. Then --layout features is NCHW and "
      "tokens NHWC, and --n is left out, or any for images of any size.");
  add(
      "--kernel", {1, 2}, "one number or two, as 3 or 3x3",
      [](Convolution& of, const Sizes& sizes) {
        of.kernel_height = sizes.front();
        of.kernel_width = sizes.back();
      },
      "With --conv: height and width of the kernel. Default: 1.");
  add(
      "--stride", {1, 2}, "one number or two, as 2 or 2x1",
      [](Convolution& of, const Sizes& sizes) {
        of.stride_height = sizes.front();
        of.stride_width = sizes.back();
      },
      "With --conv. Default: 1.");
  add("--pad", {1, 2, 4}, "one number, two or four, as 1, 1x0 or 1x1x1x1", set_padding,
      "With --conv: zeros around the image: of all sides, of height and width, or of top, left, "
      "bottom and right. Default: 0.");
  add(
      "--dilation", {1, 2}, "one number or two, as 2 or 2x1",
      [](Convolution& of, const Sizes& sizes) {
        of.dilation_height = sizes.front();
        of.dilation_width = sizes.back();
      },
      "With --conv. Default: 1.");
  add(
      "--groups", {1}, "one number",
      [](Convolution& of, const Sizes& sizes) { of.groups = sizes[0]; },
      "With --conv: of channels and of filters; A has the channels of one. Default: 1.");
}

/// Two numbers with a comma between; nothing where they are not.
std::optional<std::pair<float, float>> read_pair(std::string_view text) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto first = read_number<float>(text.substr(0, comma));
  const auto second = read_number<float>(text.substr(std::min(comma + 1, text.size())));
  if (!first || !second) return std::nullopt;
  return std::pair{*first, *second};
}

[[noreturn]] void refuse_activation(std::string_view expected, std::string_view text) {
  throw InvalidArgument(fmt::format("--activation: expected {}, not '{}'", expected,
                                    printable(text, k_longest_shown)));
}

/// What --activation says behind the name of what has parameters; `text` is all of it.
void read_parameters(std::string_view parameters, std::string_view text, Epilogue& epilogue) {
  if (epilogue.activation == Activation::clamp) {
    const auto bounds = read_pair(parameters);
    if (!bounds || !(bounds->first <= bounds->second)) {
      refuse_activation("clamp:LOW,HIGH with LOW up to HIGH, as clamp:0,6 or clamp:-1,inf", text);
    }
    std::tie(epilogue.low, epilogue.high) = *bounds;
  } else if (epilogue.activation == Activation::leaky_relu) {
    const auto alpha = read_number<float>(parameters);
    if (!alpha || !std::isfinite(*alpha)) {
      refuse_activation("leaky-relu or leaky-relu:ALPHA, as leaky-relu:0.1", text);
    }
    epilogue.alpha = *alpha;
  } else {
    const auto line = read_pair(parameters);
    if (!line || !std::isfinite(line->first) || !std::isfinite(line->second)) {
      refuse_activation("hard-sigmoid or hard-sigmoid:ALPHA,BETA, as hard-sigmoid:0.2,0.5", text);
    }
    std::tie(epilogue.alpha, epilogue.beta) = *line;
  }
}

/// "gelu", "clamp:0,6", "leaky-relu" or "leaky-relu:0.1". What is left out is as PyTorch has it.
void parse_activation_option(std::string_view text, Epilogue& epilogue) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const bool has_parameters =
      name == "clamp" || (colon < text.size() && (name == "leaky-relu" || name == "hard-sigmoid"));
  epilogue.activation = parse_activation(has_parameters ? name : text);
  if (has_parameters) {
    read_parameters(text.substr(std::min(colon + 1, text.size())), text, epilogue);
  } else if (epilogue.activation == Activation::leaky_relu) {
    epilogue.alpha = 0.01F;
  } else if (epilogue.activation == Activation::hard_sigmoid) {
    epilogue.alpha = 1.0F / 6;
    epilogue.beta = 0.5F;
  }
}

void add_layouts(CLI::App& command, Problem& problem) {
  // The parser goes through options as they are added: those of one operand have the last word.
  const auto add = [&](const char* flag, const char* what, auto set) {
    command
        .add_option_function<std::string>(
            flag, [set](const std::string& name) { set(parse_layout(name)); }, what)
        ->type_name("LAYOUT");
  };
  add("--layout",
      "How B [k x n] and C [m x n] lie in memory: features (row-major, the n values of a feature "
      "together), tokens (those of a token together, as frameworks have activations: X [n x k], Y "
      "[n x m]) or panels (of --panel-columns columns, for layers that are chained). Default: "
      "features.",
      [&problem](Layout layout) { problem.b.layout = problem.c.layout = layout; });
  add("--b-layout", "The same for B alone.",
      [&problem](Layout layout) { problem.b.layout = layout; });
  add("--c-layout", "The same for C, and the residual, alone.",
      [&problem](Layout layout) { problem.c.layout = layout; });
  command
      .add_option_function<std::int64_t>(
          "--panel-columns", [&problem](std::int64_t columns) { problem.panel_columns = columns; },
          "Columns that a panel of B and C has, a multiple of the vector's lanes (AVX-512: 16, "
          "AVX2: 8, generic: 4), for layers that are chained panel by panel. Default: chosen with "
          "the tile.")
      ->transform(whole_number(1, k_most_count))
      ->type_name("W");
}

void add_operand(CLI::App& command, const std::string& flag, bool& wanted, OperandFile& file,
                 const std::string& what) {
  command
      .add_option_function<std::string>(
          flag,
          [&wanted, &file](const std::string& path) {
            wanted = true;
            if (path != k_made_up) file = {path, {}};
          },
          what)
      ->expected(0, 1)
      ->check(not_empty())
      ->default_str(k_made_up)
      ->type_name("[FILE]");
}

void add_epilogue(CLI::App& command, Epilogue& epilogue, OperandFiles& files) {
  add_operand(
      command, "--scale", epilogue.scale, files.scale,
      "Multiply each row of A * B by a number of its own, as dequantized weights need. FILE "
      "(.npy, one dimension) has them for every layer of the command; name matrix files "
      "before, or write --scale=FILE. They are operands of a run, no part of the kernel.");
  add_operand(command, "--bias", epilogue.bias, files.bias,
              "Add a number to each row, after --scale. FILE as there.");
  command.add_flag("--bias-first", epilogue.bias_first,
                   "With --scale and --bias: scale * (A * B + bias).");
  command.add_flag("--residual", epilogue.residual,
                   "Add to each element that of an array laid out as C, after --bias.");
  command
      .add_option_function<std::string>(
          "--activation",
          [&epilogue](const std::string& text) { parse_activation_option(text, epilogue); },
          "Last, a function of each element as PyTorch has it: none, relu, gelu (with erf), "
          "gelu-tanh, silu, hard-swish, sigmoid, tanh, clamp:LOW,HIGH, leaky-relu:ALPHA "
          "(without: 0.01) or hard-sigmoid:ALPHA,BETA (without: 1/6 and 0.5).")
      ->type_name("FUNCTION")
      ->default_str("none");
}

void add_group_scales(CLI::App& command, GroupScalesFile& file) {
  command
      .add_option_function<std::string>(
          "--group-scales",
          [&file](const std::string& path) {
            file.path = path;
            file.scales = nullptr;
          },
          "Scales of groups of columns of an A of i8 or i4, whose values are integers. FILE (.npy, "
          "or .npz of one array) is [rows of A x groups]. They are part of the kernel.")
      ->check(not_empty())
      ->type_name("FILE");
  command
      .add_option_function<std::int64_t>(
          "--group-columns",
          [&file](std::int64_t columns) {
            file.columns = columns;
            file.scales = nullptr;
          },
          "With --group-scales: columns of a group, 32, 64 or 128; the last may have fewer.")
      ->transform(whole_number(1, k_most_count))
      ->type_name("N");
}

/// Where the image is a sequence one of height 1, and what its options, one number each, say of
/// the height is left out.
void make_image(Convolution& of) {
  if (of.height != k_sequence) return;
  const auto take = [](const char* flag, std::int64_t& height, std::int64_t width,
                       std::int64_t neutral) {
    if (height != width && height != neutral) {
      throw InvalidArgument(
          fmt::format("{} has {} for the height and {} for the width; expected one number for a "
                      "convolution of one dimension",
                      flag, height, width));
    }
    height = neutral;
  };
  take("--kernel", of.kernel_height, of.kernel_width, 1);
  take("--stride", of.stride_height, of.stride_width, 1);
  take("--dilation", of.dilation_height, of.dilation_width, 1);
  take("--pad", of.pad_top, of.pad_left, 0);
  take("--pad", of.pad_bottom, of.pad_right, 0);
  of.height = 1;
}

/// All that a problem of no matrix says is what a problem of any says.
Problem without_matrix(Problem problem) {
  problem.a = CsrMatrix{0, rules_of(problem).columns_of_a(problem), {0}, {}, {}};
  return problem;
}

}  // namespace

void add_problem_options(CLI::App& command, Problem& problem, OperandFiles& files) {
  command
      .add_option_function<std::string>(
          "-n,--n", [&problem](const std::string& text) { problem.n = parse_columns(text); },
          "Columns of B and C: a number, or any, for a kernel that takes any n when it runs. "
          "any:N says what is typical, which choices and times are for; any is any:128. Required "
          "without --conv.")
      ->type_name("N");
  add_convolution(command, problem);
  add_layouts(command, problem);
  add_epilogue(command, problem.epilogue, files);
  add_numerics(command, problem.numerics);
  add_group_scales(command, files.group_scales);
  command.add_flag("--runtime-values", problem.runtime_values,
                   "Leave A's values to each run: the kernel is of A's pattern alone, and "
                   "checkpoints of one pattern share it.");
}

void check_problem(Problem& problem) {
  if (problem.convolution && problem.operation != Operation::conv2d) {
    throw UsageError("--kernel, --stride, --pad, --dilation and --groups need --conv");
  }
  if (problem.convolution) make_image(*problem.convolution);
  const OperationRules& rules = rules_of(problem);
  if (rules.has_images() && problem.n.runtime) problem.n.value = 0;  // those of the image
  if (!rules.has_images() && problem.n.value == 0) throw UsageError("--n is required");
  const bool has_panels =
      problem.b.layout == Layout::panel_major || problem.c.layout == Layout::panel_major;
  if (has_panels && !problem.panel_columns) {
    throw UsageError("the layout panels needs --panel-columns, the width of a panel");
  }
  static_cast<void>(checked_problem(without_matrix(problem)));
  rules.set_n(problem);
}

void set_kernel(Convolution& of, std::span<const std::int64_t> sizes) {
  of.kernel_width = sizes.back();
  if (sizes.size() > 1) {
    of.kernel_height = sizes.front();
    return;
  }
  if (of.height != k_sequence && of.height != 1) {
    throw InvalidArgument(
        fmt::format("--conv: the image is {} high; expected channels and length, as 64x100, for "
                    "weights of three dimensions",
                    of.height));
  }
  of.height = k_sequence;
  of.kernel_height = 1;
}

void set_any_columns(Problem& problem) { problem.n = Extent::at_run_time(k_typical_columns); }

Json describe(const Problem& problem) {
  Json json = to_json(without_matrix(problem));
  json.erase("a");
  return json;
}

std::string columns_text(const Extent& n) {
  return n.runtime ? fmt::format("any ({} is typical)", n.value) : fmt::format("{}", n.value);
}

std::string layouts_text(Layout b, Layout c) {
  return b == c ? std::string(to_string(b)) : fmt::format("{}, {}", to_string(b), to_string(c));
}

std::string layer_text(const Problem& problem) {
  const bool is_plain = problem.epilogue.empty() && !problem.n.runtime && !problem.runtime_values &&
                        problem.b.layout == Layout::row_major &&
                        problem.c.layout == Layout::row_major && problem.numerics.is_default();
  const std::string details = rules_of(problem).details(sizes_of(problem));
  if (is_plain && details.empty()) return "";
  const std::string image = details.empty() ? "" : "; image: " + details;
  const std::string types =
      problem.numerics.is_default() ? "" : "; types: " + to_string(problem.numerics);
  return fmt::format("C = {}; n: {}; layout: {}{}{}{}\n", formula_of(problem.epilogue),
                     columns_text(problem.n), layouts_text(problem.b.layout, problem.c.layout),
                     problem.runtime_values ? "; A's values at run time" : "", types, image);
}

}  // namespace spjit::cli
