#include "plan/numerics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "base/number_text.hpp"
#include "plan/elements.hpp"
#include "plan/quantization.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::string_view k_bounded = "bounded:";
// In the order of the enumeration.
constexpr std::array<std::string_view, 4> k_promises = {"ordered", "tensor", "bounded", "integer"};

constexpr std::string_view k_quantize = "quantize:";
// In the order of the enumeration.
constexpr std::array<std::string_view, 4> k_quantizations = {"none", "given", "tensor", "token"};

bool is_eps(double eps) { return std::isfinite(eps) && eps > 0 && eps < 1; }

void check_eps(const Accumulate& accumulate) {
  const bool is_bounded = accumulate.promise == Promise::bounded;
  if (is_bounded && !is_eps(accumulate.eps)) {
    throw InvalidArgument(
        fmt::format("eps of bounded is {}; expected a number above 0 and below 1", accumulate.eps));
  }
  if (!is_bounded && accumulate.eps != 0) {
    throw InvalidArgument(fmt::format("eps is {}, and the promise is {}; expected 0",
                                      accumulate.eps, to_string(accumulate.promise)));
  }
}

bool is_of_integers(DataType type) { return info_of(type).is_integer; }

/// What the promise asks of A and B, if they are something else.
std::string_view expected_types(const Numerics& numerics) {
  const bool are_narrow = numerics.a == DataType::bf16 || numerics.a == DataType::f16;
  switch (numerics.accumulate.promise) {
    case Promise::ordered:
      if (numerics.a != DataType::i32 && !is_of_integers(numerics.b)) return {};
      return "A of another type than i32, and B of f32, bf16 or f16";
    case Promise::tensor:
      if (are_narrow && numerics.a == numerics.b) return {};
      return "A and B both of bf16, or both of f16";
    case Promise::integer:
      if (is_of_integers(numerics.a) && (is_of_integers(numerics.b) || quantizes_floats(numerics)))
        return {};
      return "A and B of integers";
    case Promise::bounded:
      break;
  }
  return {};
}

/// What the quantization asks of B and of the promise, if they are something else.
std::string_view expected_of_quantization(const Numerics& numerics) {
  const bool is_integer = numerics.accumulate.promise == Promise::integer;
  const bool are_bytes = numerics.b == DataType::i8 || numerics.b == DataType::u8;
  switch (numerics.quantization) {
    case Quantization::given:
      if (is_integer && are_bytes) return {};
      return "integer, and B of i8 or u8";
    case Quantization::tensor:
    case Quantization::token:
      if (is_integer && numerics.b == DataType::f32) return {};
      return "integer, and B of f32";
    case Quantization::none:
      break;
  }
  return {};
}

void check_not_packed(const char* name, DataType type) {
  if (type != DataType::i4) return;
  throw InvalidArgument(
      fmt::format("the type of {} is i4, two elements in a byte; expected one of whole bytes (A "
                  "alone may be i4)",
                  name));
}

/// The row that the i-th entry is of.
std::int64_t row_of(const CsrMatrix& matrix, std::int64_t i) {
  return std::ranges::upper_bound(matrix.row_ptrs, i) - matrix.row_ptrs.begin() - 1;
}

void check_exact(const CsrMatrix& matrix, DataType type, const Cancellation& cancel) {
  const std::optional<std::int64_t> found = first_inexact(type, matrix.values, cancel);
  if (!found) return;
  throw InvalidArgument(
      fmt::format("A[{}][{}] is {}, which {} does not have; round A's values to the type first",
                  row_of(matrix, *found), matrix.col_idxs[to_size(*found)],
                  matrix.values[to_size(*found)], to_string(type)));
}

double largest_magnitude(DataType type) {
  const DataTypeInfo& info = info_of(type);
  return std::max(-info.lowest, info.largest);
}

/// What a value of A may be multiplied by in a sum: of bytes with a zero point their difference.
double largest_factor_of_a(const Numerics& numerics) {
  constexpr double k_difference = 255;
  constexpr double k_symmetric = 127;
  switch (numerics.quantization) {
    case Quantization::given:
    case Quantization::tensor:
      return k_difference;
    case Quantization::token:
      return k_symmetric;
    case Quantization::none:
      break;
  }
  return largest_magnitude(numerics.b);
}

/// That no partial sum of a row leaves int32, whatever B is.
void check_integer_sums(const Problem& problem, const Cancellation& cancel) {
  constexpr double k_most = std::numeric_limits<std::int32_t>::max();
  const CsrMatrix& matrix = *problem.a;
  const double of_a = largest_magnitude(problem.numerics.a);
  const double of_b = largest_factor_of_a(problem.numerics);
  CancelPace pace(cancel);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.row_ptrs[to_size(row)];
    const std::int64_t end = matrix.row_ptrs[to_size(row) + 1];
    double magnitude = 0;  // exact, or far beyond
    for (std::int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(matrix.values[to_size(i)]);
      magnitude += problem.runtime_values ? of_a : std::abs(value);
    }
    pace.spend(end - begin + 1);
    if (magnitude * of_b <= k_most) continue;
    throw InvalidArgument(fmt::format(
        "a sum of row {} of A may reach {:.0f} * {:.0f}, beyond int32; expected at most {:.0f} "
        "(integer adds up exactly: take bounded:EPS, or split the row)",
        row, magnitude, of_b, k_most));
  }
}

/// A with +0 in place of -0, which no integer type has.
SharedMatrix without_negative_zeros(const SharedMatrix& a, const Cancellation& cancel) {
  const auto is_negative_zero = [](float value) { return value == 0 && std::signbit(value); };
  bool found = false;
  for_each_piece(a->nnz(), cancel, [&](std::int64_t begin, std::int64_t end) {
    const float* values = a->values.data();
    found = found || std::any_of(values + begin, values + end, is_negative_zero);
  });
  if (!found) return a;
  CsrMatrix copy = *a;
  std::ranges::replace_if(copy.values, is_negative_zero, 0.0F);
  return copy;
}

}  // namespace

std::string_view to_string(Promise promise) {
  const auto index = static_cast<std::size_t>(promise);
  return index < k_promises.size() ? k_promises[index] : "?";
}

std::string_view to_string(Quantization quantization) {
  const auto index = static_cast<std::size_t>(quantization);
  return index < k_quantizations.size() ? k_quantizations[index] : "?";
}

Quantization parse_quantization(std::string_view name) {
  const auto found = std::ranges::find(k_quantizations, name);
  if (found != k_quantizations.end()) {
    return static_cast<Quantization>(found - k_quantizations.begin());
  }
  throw InvalidArgument(
      fmt::format("the quantization is \"{}\"; expected none, given, tensor or token", name));
}

Accumulate parse_accumulate(std::string_view text) {
  for (const Accumulate& each :
       {Accumulate::ordered(), Accumulate::tensor(), Accumulate::integer()}) {
    if (text == to_string(each.promise)) return each;
  }
  if (text.starts_with(k_bounded)) {
    const auto eps = read_number<double>(text.substr(k_bounded.size()));
    if (eps && is_eps(*eps)) return Accumulate::bounded(*eps);
  }
  throw InvalidArgument(
      fmt::format("accumulate is \"{}\"; expected ordered, tensor, integer or bounded:EPS with EPS "
                  "above 0 and below 1, as bounded:1e-3",
                  text));
}

std::string to_string(const Accumulate& accumulate) {
  // {} gives the shortest text that is read as the same number.
  if (accumulate.promise == Promise::bounded) return fmt::format("{}{}", k_bounded, accumulate.eps);
  return std::string(to_string(accumulate.promise));
}

Numerics parse_types(std::string_view text) {
  std::array<DataType, 3> types{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::size_t comma = rest.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == types.size())) {
      throw InvalidArgument(
          fmt::format("types are \"{}\"; expected three, of A, B and C, as bf16,bf16,f32", text));
    }
    types[i] = parse_data_type(rest.substr(0, comma));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  return {types[0], types[1], types[2]};
}

std::string to_string(const Numerics& numerics) {
  const std::string quantization =
      numerics.quantization == Quantization::none
          ? ""
          : fmt::format(" {}{}", k_quantize, to_string(numerics.quantization));
  return fmt::format("{},{},{} {}{}", to_string(numerics.a), to_string(numerics.b),
                     to_string(numerics.c), to_string(numerics.accumulate), quantization);
}

void validate(const Numerics& numerics) {
  for (const DataType type : {numerics.a, numerics.b, numerics.c}) {
    static_cast<void>(info_of(type));
  }
  const auto promise = static_cast<std::size_t>(numerics.accumulate.promise);
  if (promise >= k_promises.size()) {
    throw InvalidArgument(
        fmt::format("the promise is {}; expected 0 to {}", promise, k_promises.size() - 1));
  }
  check_eps(numerics.accumulate);
  check_not_packed("B", numerics.b);
  check_not_packed("C", numerics.c);
  const auto quantization = static_cast<std::size_t>(numerics.quantization);
  if (quantization >= k_quantizations.size()) {
    throw InvalidArgument(fmt::format("the quantization is {}; expected 0 to {}", quantization,
                                      k_quantizations.size() - 1));
  }
  const std::string_view asked = expected_of_quantization(numerics);
  if (!asked.empty()) {
    throw InvalidArgument(fmt::format(
        "the quantization {} is of {} and B {}; expected {}", to_string(numerics.quantization),
        to_string(numerics.accumulate), to_string(numerics.b), asked));
  }
  const std::string_view expected = expected_types(numerics);
  if (expected.empty()) return;
  throw InvalidArgument(fmt::format("{} is of A {} and B {}; expected {}",
                                    to_string(numerics.accumulate), to_string(numerics.a),
                                    to_string(numerics.b), expected));
}

std::optional<std::int64_t> first_inexact(DataType type, std::span<const float> values,
                                          const Cancellation& cancel) {
  std::optional<std::int64_t> found;
  if (type == DataType::f32) return found;
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && !found; ++i) {
      if (!is_exact_in(type, values[to_size(i)])) found = i;
    }
  });
  return found;
}

SharedMatrix checked_values(const Problem& problem, const Cancellation& cancel) {
  check_exact(*problem.a, problem.numerics.a, cancel);
  if (problem.numerics.accumulate.promise == Promise::integer) check_integer_sums(problem, cancel);
  if (!is_of_integers(problem.numerics.a)) return problem.a;
  return without_negative_zeros(problem.a, cancel);
}

void add_to_key(const Numerics& numerics, KeyBuilder& key) {
  if (!numerics.is_default()) key.field("types and sums", to_string(numerics));
}

nlohmann::json to_json(const Numerics& numerics) {
  nlohmann::json json = {{"a", to_string(numerics.a)},
                         {"b", to_string(numerics.b)},
                         {"c", to_string(numerics.c)},
                         {"accumulate", to_string(numerics.accumulate)}};
  if (numerics.quantization != Quantization::none) {
    json["quantize"] = to_string(numerics.quantization);
  }
  return json;
}

Numerics read_numerics(const nlohmann::json& json) {
  JsonMembers members(json, "\"numerics\" of a problem");
  Numerics numerics;
  numerics.a = parse_data_type(members.text("a"));
  numerics.b = parse_data_type(members.text("b"));
  numerics.c = parse_data_type(members.text("c"));
  numerics.accumulate = parse_accumulate(members.text("accumulate"));
  if (json.contains("quantize")) {
    numerics.quantization = parse_quantization(members.text("quantize"));
  }
  members.finish();
  validate(numerics);
  return numerics;
}

}  // namespace spjit
