#include "kernels/host/object/program_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/arithmetic.hpp"
#include "matrix/limits.hpp"
#include "plan/convolution.hpp"
#include "plan/group_scales.hpp"
#include "plan/operation.hpp"
#include "plan/problem.hpp"
#include "plan/quantization.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// "spjitprg" as little-endian bytes.
constexpr std::int64_t k_magic = 0x6772707469'6A7073;

constexpr std::int64_t k_scale = 1;
constexpr std::int64_t k_bias = 2;
constexpr std::int64_t k_residual = 4;
constexpr std::int64_t k_bias_first = 8;

// What follows the epilogue.
constexpr std::int64_t k_convolution = 1;
constexpr std::int64_t k_numerics = 2;
constexpr std::int64_t k_quantization = 4;
constexpr std::int64_t k_groups = 8;

using FamilyWords = std::array<std::int64_t, 2>;

FamilyWords words_of_name(const std::string& family) {
  FamilyWords words{};
  require_record(family.size() <= sizeof(words), "the family's name is too long");
  std::memcpy(words.data(), family.data(), family.size());
  return words;
}

std::string name_in(const FamilyWords& words) {
  std::array<char, sizeof(words)> name{};
  std::memcpy(name.data(), words.data(), sizeof(words));
  std::string family(name.data(), ::strnlen(name.data(), name.size()));
  const bool plain = !family.empty() && std::ranges::all_of(family, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
  require_record(plain && words_of_name(family) == words, "no name of a family");
  return family;
}

Layout read_layout(WordReader& reader) {
  return static_cast<Layout>(reader.word(0, static_cast<std::int64_t>(Layout::tokens_major)));
}

float read_float(WordReader& reader) {
  using Bits = std::numeric_limits<std::int32_t>;
  return std::bit_cast<float>(static_cast<std::int32_t>(reader.word(Bits::min(), Bits::max())));
}

Epilogue read_epilogue(WordReader& reader) {
  const std::int64_t operands = reader.word(0, k_scale | k_bias | k_residual | k_bias_first);
  Epilogue epilogue;
  epilogue.scale = (operands & k_scale) != 0;
  epilogue.bias = (operands & k_bias) != 0;
  epilogue.residual = (operands & k_residual) != 0;
  epilogue.bias_first = (operands & k_bias_first) != 0;
  require_record(!epilogue.bias_first || (epilogue.scale && epilogue.bias),
                 "a bias before a scale, without both");
  epilogue.activation =
      static_cast<Activation>(reader.word(0, static_cast<std::int64_t>(k_last_activation)));
  epilogue.low = read_float(reader);
  epilogue.high = read_float(reader);
  epilogue.alpha = read_float(reader);
  epilogue.beta = read_float(reader);
  const Activation activation = epilogue.activation;
  const auto is_plus_zero = [](float value) { return std::bit_cast<std::int32_t>(value) == 0; };
  if (has_bounds(activation)) {
    require_record(are_bounds(epilogue.low, epilogue.high), "bounds of clamp");
  } else {
    require_record(is_plus_zero(epilogue.low) && is_plus_zero(epilogue.high),
                   "bounds without clamp");
  }
  const auto check_parameter = [&](float value, bool has_it) {
    require_record(has_it ? std::isfinite(value) : is_plus_zero(value),
                   "parameters of an activation");
  };
  check_parameter(epilogue.alpha, has_alpha(activation));
  check_parameter(epilogue.beta, has_beta(activation));
  return epilogue;
}

Convolution read_convolution(WordReader& reader) {
  std::array<std::int64_t, k_convolution_sizes> sizes{};
  for (std::int64_t& size : sizes) size = reader.word(0, k_max_dimension);
  const Convolution convolution = convolution_of(sizes);
  try {
    check_convolution(convolution);
  } catch (const InvalidArgument& error) {
    throw Error(fmt::format("program record: {}", error.what()));
  }
  return convolution;
}

Numerics read_numerics(WordReader& reader, bool has_quantization) {
  const auto read_type = [&] {
    return static_cast<DataType>(reader.word(0, static_cast<std::int64_t>(DataType::i4)));
  };
  Numerics numerics;
  numerics.a = read_type();
  numerics.b = read_type();
  numerics.c = read_type();
  numerics.accumulate.promise =
      static_cast<Promise>(reader.word(0, static_cast<std::int64_t>(Promise::integer)));
  numerics.accumulate.eps = std::bit_cast<double>(reader.word());
  if (has_quantization) {
    numerics.quantization =
        static_cast<Quantization>(reader.word(static_cast<std::int64_t>(Quantization::given),
                                              static_cast<std::int64_t>(Quantization::token)));
  }
  try {
    validate(numerics);
  } catch (const InvalidArgument& error) {
    throw Error(fmt::format("program record: {}", error.what()));
  }
  require_record(!numerics.is_default(), "numerics that are the default");
  return numerics;
}

/// Whether sizes are those of its convolution.
bool is_of_convolution(const HostProgramHeader& header) {
  const Convolution& of = *header.convolution;
  return of.groups == 1 && header.cols == of.channels * of.kernel_height * of.kernel_width &&
         header.n == of.output_height() * of.output_width() &&
         header.b_layout != Layout::panel_major && header.c_layout != Layout::panel_major;
}

void append_numerics(std::vector<std::int64_t>& words, const Numerics& numerics) {
  for (const DataType type : {numerics.a, numerics.b, numerics.c}) {
    words.push_back(static_cast<std::int64_t>(type));
  }
  words.push_back(static_cast<std::int64_t>(numerics.accumulate.promise));
  words.push_back(std::bit_cast<std::int64_t>(numerics.accumulate.eps));
  if (is_quantized(numerics)) {
    words.push_back(static_cast<std::int64_t>(numerics.quantization));
  }
}

}  // namespace

HostProgramHeader header_of(const Problem& problem, std::string family, HostIsa isa) {
  HostProgramHeader header;
  header.family = std::move(family);
  header.isa = isa;
  header.rows = problem.a->rows;
  header.cols = problem.a->cols;
  header.n = problem.n.value;
  header.runtime_n = problem.n.runtime;
  header.ldb = problem.ldb();
  header.ldc = problem.ldc();
  header.nnz = problem.a->nnz();
  header.runtime_values = problem.runtime_values;
  header.b_layout = problem.b.layout;
  header.c_layout = problem.c.layout;
  header.epilogue = problem.epilogue;
  header.convolution = problem.convolution;
  header.numerics = problem.numerics;
  header.group_columns = groups_of(problem).columns;
  return header;
}

WordReader::WordReader(std::span<const std::byte> bytes, Cancellation cancel)
    : bytes_(bytes), cancel_(std::move(cancel)) {
  if (bytes.size() % sizeof(std::int64_t) != 0) throw Error("program record: not whole words");
}

std::int64_t WordReader::word() {
  if (bytes_.size() < sizeof(std::int64_t)) throw Error("program record: ends early");
  std::int64_t value = 0;
  std::memcpy(&value, bytes_.data(), sizeof(value));
  bytes_ = bytes_.subspan(sizeof(value));
  return value;
}

std::int64_t WordReader::word(std::int64_t low, std::int64_t high) {
  const std::int64_t value = word();
  if (value < low || value > high) {
    throw Error(fmt::format("program record: {} where {} to {} was expected", value, low, high));
  }
  return value;
}

std::vector<std::int64_t> WordReader::words() {
  const auto left = static_cast<std::int64_t>(bytes_.size() / sizeof(std::int64_t));
  const std::int64_t count = word(0, left - 1);
  std::vector<std::int64_t> values = filled(count, std::int64_t{0}, cancel_);
  for_each_piece(count, cancel_, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(values.data() + begin, bytes_.data() + to_size(begin) * sizeof(std::int64_t),
                to_size(end - begin) * sizeof(std::int64_t));
  });
  bytes_ = bytes_.subspan(to_size(count) * sizeof(std::int64_t));
  return values;
}

void WordReader::finish() const {
  if (!bytes_.empty()) throw Error("program record: bytes left over");
}

void require_record(bool good, const char* what) {
  if (!good) throw Error(fmt::format("program record: {}", what));
}

std::vector<std::int64_t> write_header(const HostProgramHeader& header) {
  const FamilyWords family = words_of_name(header.family);
  std::vector<std::int64_t> words = {
      k_magic,
      k_host_program_version,
      family[0],
      family[1],
      static_cast<std::int64_t>(header.isa),
      header.rows,
      header.cols,
      header.n,
      header.runtime_n ? 1 : 0,
      header.ldb,
      header.ldc,
      header.nnz,
      header.runtime_values ? 1 : 0,
      static_cast<std::int64_t>(header.b_layout),
      static_cast<std::int64_t>(header.c_layout),
      (header.epilogue.scale ? k_scale : 0) | (header.epilogue.bias ? k_bias : 0) |
          (header.epilogue.residual ? k_residual : 0) |
          (header.epilogue.bias_first ? k_bias_first : 0),
      static_cast<std::int64_t>(header.epilogue.activation),
      std::bit_cast<std::int32_t>(header.epilogue.low),
      std::bit_cast<std::int32_t>(header.epilogue.high),
      std::bit_cast<std::int32_t>(header.epilogue.alpha),
      std::bit_cast<std::int32_t>(header.epilogue.beta),
      (header.convolution ? k_convolution : 0) | (header.numerics.is_default() ? 0 : k_numerics) |
          (is_quantized(header.numerics) ? k_quantization : 0) |
          (header.group_columns > 0 ? k_groups : 0)};
  if (header.convolution) {
    const auto sizes = sizes_of(*header.convolution);
    words.insert(words.end(), sizes.begin(), sizes.end());
  }
  if (!header.numerics.is_default()) append_numerics(words, header.numerics);
  if (header.group_columns > 0) words.push_back(header.group_columns);
  return words;
}

HostProgramHeader read_header(WordReader& reader) {
  constexpr std::int64_t k_most_nnz = std::int64_t{1} << 48;
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
  if (reader.word() != k_magic) throw Error("program record: not one of spjit");
  const std::int64_t version = reader.word();
  if (version != k_host_program_version) {
    throw Error(
        fmt::format("program record: version {}, this build reads version {}; compile again",
                    version, k_host_program_version));
  }
  HostProgramHeader header;
  const std::int64_t first = reader.word();
  header.family = name_in({first, reader.word()});
  header.isa = static_cast<HostIsa>(reader.word(0, 2));
  header.rows = reader.word(0, k_max_dimension);
  header.cols = reader.word(0, k_max_dimension);
  header.n = reader.word(1, k_max_dimension);
  header.runtime_n = reader.word(0, 1) != 0;
  header.ldb = reader.word(0, k_most);
  header.ldc = reader.word(0, k_most);
  header.nnz = reader.word(0, k_most_nnz);
  header.runtime_values = reader.word(0, 1) != 0;
  header.b_layout = read_layout(reader);
  header.c_layout = read_layout(reader);
  header.epilogue = read_epilogue(reader);
  const std::int64_t parts = reader.word(0, k_convolution | k_numerics | k_quantization | k_groups);
  if ((parts & k_convolution) != 0) header.convolution = read_convolution(reader);
  const bool has_quantization = (parts & k_quantization) != 0;
  if ((parts & k_numerics) != 0) header.numerics = read_numerics(reader, has_quantization);
  const bool is_of_tokens = header.numerics.quantization == Quantization::token;
  require_record(
      has_quantization == is_quantized(header.numerics) && !(is_of_tokens && header.convolution),
      "a quantization");
  if ((parts & k_groups) != 0) {
    header.group_columns = reader.word();
    require_record(is_group_size(header.group_columns) && takes_group_scales(header.numerics) &&
                       !header.runtime_values && !header.convolution,
                   "groups of columns");
  }
  require_record(!header.convolution || is_of_convolution(header), "sizes of a convolution");
  const bool has_tokens = header.b_layout == Layout::tokens_major;
  const StoredSize b =
      rules_of(header.convolution).stored_b(sizes_of(header.cols, header.n, header.convolution));
  require_record(has_tokens || header.ldb >= b.columns, "ldb");
  require_record(header.ldc >= (header.c_layout == Layout::tokens_major ? header.rows : header.n),
                 "ldc");
  return header;
}

void append_words(std::vector<std::int64_t>& words, const std::vector<std::int64_t>& values,
                  const Cancellation& cancel) {
  words.push_back(std::ssize(values));
  append_in_pieces(words, std::span(values), cancel);
}

std::vector<std::int64_t> words_of(const RowRanges& rows) {
  std::vector<std::int64_t> words;
  for (const RowRange& range : rows.ranges()) {
    words.push_back(range.begin);
    words.push_back(range.end);
  }
  return words;
}

RowRanges ranges_of(const std::vector<std::int64_t>& words, std::int64_t rows, const char* what) {
  require_record(words.size() % 2 == 0, what);
  RowRanges ranges;
  std::int64_t end = -1;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    // A range that touches the one before would have been part of it.
    require_record(words[i] > end && words[i + 1] > words[i] && words[i + 1] <= rows, what);
    end = words[i + 1];
    ranges.add(words[i], end);
  }
  return ranges;
}

bool ascending_within(const std::vector<std::int64_t>& values, std::int64_t low, std::int64_t high,
                      const Cancellation& cancel) {
  std::int64_t last = low;
  bool good = true;
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t value = values[to_size(i)];
      good &= value >= last && value <= high;
      last = value;
    }
  });
  return good;
}

}  // namespace spjit
