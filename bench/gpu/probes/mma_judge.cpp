// mma_judge FILE...                     counts, rule by rule, the outputs that differ from T-FDPA
// mma_judge --simulate TEST FILE [L F]  writes FILE as a card with that rule would
// mma_judge --self-test                 hand-made sums
//
// FILE is what mma_probe wrote. One JSON line a rule, then the best rule by kind of input, and the
// first outputs that differ. Needs no GPU.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "mma_fdpa.hpp"

namespace {

using namespace probe;

struct Results {
  int test_id = 0;
  std::vector<std::uint32_t> bits;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "mma_judge: %s\n", message.c_str());
  std::exit(2);
}

Results read_results(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(std::string(path) + ": cannot be read");
  FileHeader header{};
  in.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (!in || std::memcmp(header.magic, k_magic, sizeof(k_magic)) != 0) {
    fail(std::string(path) + ": not a file of mma_probe");
  }
  if (header.test_id >= k_test_count || header.tiles != k_tiles) {
    fail(std::string(path) + ": test " + std::to_string(header.test_id) + " with " +
         std::to_string(header.tiles) + " tiles; expected a test below " +
         std::to_string(k_test_count) + " with " + std::to_string(k_tiles));
  }
  Results results{static_cast<int>(header.test_id),
                  std::vector<std::uint32_t>(static_cast<std::size_t>(k_tiles) * k_tile_size)};
  in.read(reinterpret_cast<char*>(results.bits.data()),
          static_cast<std::streamsize>(results.bits.size() * sizeof(std::uint32_t)));
  if (!in) fail(std::string(path) + ": ends early");
  return results;
}

void write_results(const char* path, const Results& results) {
  FileHeader header{};
  std::memcpy(header.magic, k_magic, sizeof(k_magic));
  header.test_id = static_cast<std::uint32_t>(results.test_id);
  header.tiles = k_tiles;
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof(header));
  out.write(reinterpret_cast<const char*>(results.bits.data()),
            static_cast<std::streamsize>(results.bits.size() * sizeof(std::uint32_t)));
  if (!out) fail(std::string(path) + ": cannot be written");
}

/// What the rule gives for each output of a test.
std::vector<std::uint32_t> evaluate(int test_id, const Rule& rule) {
  const Test test = test_of(test_id);
  std::vector<std::uint32_t> outputs;
  outputs.reserve(static_cast<std::size_t>(k_tiles) * k_tile_size);
  std::array<Unpacked, 16 * k_rows> a;
  std::array<Unpacked, 32 * k_columns> b;
  std::array<Unpacked, 16> products;
  for (int tile = 0; tile < k_tiles; ++tile) {
    for (int row = 0; row < k_rows; ++row) {
      for (int i = 0; i < test.products; ++i) {
        a[row * 16 + i] = unpack_operand(test, rule, a_bits(test_id, tile, row, i));
      }
    }
    for (int row = 0; row < test.depth; ++row) {
      for (int column = 0; column < k_columns; ++column) {
        b[row * k_columns + column] =
            unpack_operand(test, rule, b_bits(test_id, tile, row, column));
      }
    }
    for (int row = 0; row < k_rows; ++row) {
      for (int column = 0; column < k_columns; ++column) {
        for (int i = 0; i < test.products; ++i) {
          products[i] = multiply(a[row * 16 + i], b[b_row(test, tile, i) * k_columns + column]);
        }
        outputs.push_back(fdpa(rule, c_bits(test_id, tile, row, column),
                               std::span(products).first(test.products)));
      }
    }
  }
  return outputs;
}

bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffffu) > k_infinity; }
bool is_zero(std::uint32_t bits) { return (bits & 0x7fffffffu) == 0; }

/// Any NaN is a NaN; -0 against +0 is counted apart.
bool differs(std::uint32_t got, std::uint32_t expected) {
  return got != expected && !(is_nan(got) && is_nan(expected)) &&
         !(is_zero(got) && is_zero(expected));
}

struct Count {
  int mismatches = 0;
  int zero_signs = 0;
};

Count count_mismatches(const std::vector<std::uint32_t>& got,
                       const std::vector<std::uint32_t>& expected) {
  Count count;
  for (std::size_t i = 0; i < got.size(); ++i) {
    count.mismatches += differs(got[i], expected[i]);
    count.zero_signs += is_zero(got[i]) && is_zero(expected[i]) && got[i] != expected[i];
  }
  return count;
}

std::string describe(const Rule& rule) {
  char text[160];
  std::snprintf(text, sizeof(text),
                "\"L\": %d, \"F\": %d, \"zeros_align\": %s, \"normalized\": %s, "
                "\"overflow_to_max\": %s, \"round_tf32\": %s",
                rule.group, rule.fraction_bits, rule.zeros_align ? "true" : "false",
                rule.normalized ? "true" : "false", rule.overflow_to_max ? "true" : "false",
                rule.round_tf32 ? "true" : "false");
  return text;
}

class Judge {
 public:
  explicit Judge(const char* path)
      : results_(read_results(path)), test_(test_of(results_.test_id)) {}

  void run() {
    for (int group : {4, 8, 16}) {
      for (int fraction_bits = 22; fraction_bits <= 28; ++fraction_bits) {
        if (group <= test_.products) consider({group, fraction_bits});
      }
    }
    const Rule simplest = best_;
    for (int variant = 1; variant < (test_.tf32 ? 16 : 8); ++variant) {
      Rule rule = simplest;
      rule.zeros_align = (variant & 1) != 0;
      rule.normalized = (variant & 2) != 0;
      rule.overflow_to_max = (variant & 4) != 0;
      rule.round_tf32 = (variant & 8) != 0;
      consider(rule);
    }
    report_best();
  }

 private:
  void consider(const Rule& rule) {
    const Count count = count_mismatches(results_.bits, evaluate(results_.test_id, rule));
    std::printf(
        "{\"test\": \"%s\", %s, \"outputs\": %zu, \"mismatches\": %d, "
        "\"zero_sign_mismatches\": %d}\n",
        test_.name, describe(rule).c_str(), results_.bits.size(), count.mismatches,
        count.zero_signs);
    if (best_mismatches_ < 0 || count.mismatches < best_mismatches_) {
      best_ = rule;
      best_mismatches_ = count.mismatches;
    }
  }

  void report_best() const {
    const std::vector<std::uint32_t> expected = evaluate(results_.test_id, best_);
    std::array<Count, k_kind_count> by_kind{};
    int noncanonical_nans = 0;
    int examples = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int tile = static_cast<int>(i / k_tile_size);
      const int kind = static_cast<int>(kind_of(tile));
      const std::uint32_t got = results_.bits[i];
      noncanonical_nans += is_nan(got) && got != k_nan;
      by_kind[kind].zero_signs += is_zero(got) && is_zero(expected[i]) && got != expected[i];
      if (!differs(got, expected[i])) continue;
      if (by_kind[kind].mismatches++ < 2 && examples++ < 12) print_example(tile, i, expected[i]);
    }
    std::printf(
        "{\"test\": \"%s\", \"best\": {%s}, \"outputs\": %zu, \"mismatches\": %d, "
        "\"noncanonical_nans\": %d, \"by_kind\": {",
        test_.name, describe(best_).c_str(), expected.size(), best_mismatches_, noncanonical_nans);
    for (int kind = 0; kind < k_kind_count; ++kind) {
      std::printf("%s\"%s\": [%d, %d]", kind == 0 ? "" : ", ", k_kind_names[kind],
                  by_kind[kind].mismatches, by_kind[kind].zero_signs);
    }
    std::printf("}}\n");
  }

  void print_example(int tile, std::size_t index, std::uint32_t expected) const {
    const int row = static_cast<int>(index % k_tile_size) / k_columns;
    const int column = static_cast<int>(index % k_columns);
    std::printf(
        "{\"test\": \"%s\", \"kind\": \"%s\", \"tile\": %d, \"row\": %d, \"column\": %d, "
        "\"got\": \"%08x\", \"expected\": \"%08x\", \"c\": \"%08x\", \"products\": [",
        test_.name, k_kind_names[static_cast<int>(kind_of(tile))], tile, row, column,
        results_.bits[index], expected, c_bits(results_.test_id, tile, row, column));
    for (int i = 0; i < test_.products; ++i) {
      std::printf("%s[\"%x\", \"%x\"]", i == 0 ? "" : ", ", a_bits(results_.test_id, tile, row, i),
                  b_bits(results_.test_id, tile, b_row(test_, tile, i), column));
    }
    std::printf("]}\n");
  }

  Results results_;
  Test test_;
  Rule best_;
  int best_mismatches_ = -1;
};

void simulate(std::span<char*> arguments) {
  for (int test_id = 0; test_id < k_test_count; ++test_id) {
    if (std::string_view(test_of(test_id).name) != arguments[0]) continue;
    Rule rule;
    rule.group = arguments.size() > 2 ? std::atoi(arguments[2]) : test_of(test_id).products;
    if (arguments.size() > 3) rule.fraction_bits = std::atoi(arguments[3]);
    if (rule.group < 1 || rule.fraction_bits < 1 || rule.fraction_bits > k_max_fraction_bits) {
      fail("L from 1, F from 1 to " + std::to_string(k_max_fraction_bits) + ", please");
    }
    write_results(arguments[1], {test_id, evaluate(test_id, rule)});
    return;
  }
  fail(std::string("no test '") + arguments[0] + "'");
}

struct HandMade {
  const char* what;
  Rule rule;
  float c;
  std::vector<std::array<float, 2>> factors;
  std::uint32_t expected;
};

std::uint32_t bits_of(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

double power(int exponent) { return std::ldexp(1.0, exponent); }

std::vector<HandMade> hand_made() {
  const float tiny = static_cast<float>(power(-12));  // tiny * tiny = 2^-24
  const float least = static_cast<float>(power(-13));
  const float inf = std::bit_cast<float>(k_infinity);
  return {
      {"plain sum", {16, 25}, 1, {{2, 3}, {-1, 4}}, bits_of(3)},
      {"products of 2^-24 add up below 1", {16, 25}, 1, {{tiny, tiny}, {tiny, tiny}}, 0x3f800001},
      {"and do not with F = 23", {16, 23}, 1, {{tiny, tiny}, {tiny, tiny}}, 0x3f800000},
      {"2^-26 is truncated one by one at F = 25",
       {16, 25},
       1,
       {{least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least}},
       0x3f800000},
      {"and kept at F = 26",
       {16, 26},
       1,
       {{least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least},
        {least, least}},
       0x3f800001},
      {"the sum is truncated, not rounded", {16, 25}, 1, {{tiny, 1.5f * tiny}}, 0x3f800000},
      {"toward zero for negatives too", {16, 25}, -1, {{-tiny, 1.5f * tiny}}, 0xbf800000},
      {"below a power of two", {16, 25}, 1, {{-tiny, tiny}}, 0x3f7fffff},
      {"cancellation before a second group",
       {2, 25},
       0,
       {{1024, 1024}, {-1024, 1024}, {least, least}, {0, 1}},
       bits_of(power(-26))},
      {"loses it in the same group",
       {4, 25},
       0,
       {{1024, 1024}, {-1024, 1024}, {least, least}, {0, 1}},
       0},
      {"zero products leave c",
       {16, 25},
       std::bit_cast<float>(0x00000001u),
       {{0, 1024}, {-0.0f, 3}},
       1},
      {"infinity", {16, 25}, 1, {{inf, 2}}, k_infinity},
      {"infinity times zero", {16, 25}, 1, {{inf, 0}}, k_nan},
      {"infinities cancel to NaN", {16, 25}, -inf, {{inf, 2}}, k_nan},
      {"overflow",
       {16, 25},
       std::bit_cast<float>(k_infinity - 1),
       {{0x1p63f, 0x1p63f}},
       k_infinity},
      {"greatest value instead",
       {16, 25, false, false, true},
       std::bit_cast<float>(k_infinity - 1),
       {{0x1p63f, 0x1p63f}},
       k_infinity - 1},
      {"denormal result", {16, 25}, 0, {{0x1.8p-70f, 0x1p-70f}}, 0x300},
      {"a zero's exponent", {16, 25, true}, 0, {{0, 0x1p126f}, {tiny, tiny}}, bits_of(power(-24))},
      {"a zero's exponent hides",
       {16, 25, true},
       0,
       {{0x1p-126f * 0, 0x1p127f}, {tiny, 0x1p-20f}},
       0},
  };
}

/// The factors of hand-made sums are fp32 values that tf32's 11 bits hold.
int self_test() {
  int failures = 0;
  const Test test = test_of(2);
  for (const HandMade& sum : hand_made()) {
    std::vector<Unpacked> products;
    for (const auto& [a, b] : sum.factors) {
      products.push_back(multiply(unpack_operand(test, sum.rule, std::bit_cast<std::uint32_t>(a)),
                                  unpack_operand(test, sum.rule, std::bit_cast<std::uint32_t>(b))));
    }
    const std::uint32_t got = fdpa(sum.rule, std::bit_cast<std::uint32_t>(sum.c), products);
    if (got == sum.expected) continue;
    ++failures;
    std::printf("%s: got %08x, expected %08x\n", sum.what, got, sum.expected);
  }
  std::printf("%zu sums, %d wrong\n", hand_made().size(), failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
  if (arguments.empty()) fail("a FILE of mma_probe is missing");
  if (arguments[0] == std::string_view("--self-test")) return self_test();
  if (arguments[0] == std::string_view("--simulate")) {
    if (arguments.size() < 3) fail("--simulate TEST FILE [L F]");
    simulate(arguments.subspan(1));
    return 0;
  }
  for (const char* path : arguments) Judge(path).run();
}
