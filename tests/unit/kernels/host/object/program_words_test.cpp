#include "kernels/host/object/program_words.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using spjit::Activation;
using spjit::Epilogue;
using spjit::HostIsa;
using spjit::HostProgramHeader;
using spjit::Layout;
using spjit::WordReader;
using spjit::testing_support::k_activations;
using Words = std::vector<std::int64_t>;

constexpr std::int64_t k_most_dimension = (std::int64_t{1} << 31) - 1;
constexpr float k_infinite_bound = std::numeric_limits<float>::infinity();
constexpr float k_nan_bound = std::numeric_limits<float>::quiet_NaN();

HostProgramHeader some_header() { return {"windows", HostIsa::avx2, 5, 7, 20, true, 24, 21, 9}; }

/// Of a problem with tokens and everything an epilogue has.
HostProgramHeader layer_header(const Epilogue& epilogue) {
  HostProgramHeader header = some_header();
  header.b_layout = header.c_layout = Layout::tokens_major;
  header.ldb = 1;
  header.ldc = header.rows;
  header.epilogue = epilogue;
  return header;
}

HostProgramHeader read(const Words& words) {
  WordReader reader(std::as_bytes(std::span(words)));
  HostProgramHeader header = spjit::read_header(reader);
  reader.finish();
  return header;
}

std::string header_refusal(const Words& words) {
  try {
    static_cast<void>(read(words));
  } catch (const spjit::Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProgramHeader, IsReadAsItWasWritten) {
  const HostProgramHeader largest{"abcdefghijklmn_z",    HostIsa::avx512,
                                  k_most_dimension,      k_most_dimension,
                                  k_most_dimension,      false,
                                  std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max(),
                                  std::int64_t{1} << 48};
  const HostProgramHeader smallest{"a", HostIsa::generic, 0, 0, 1, false, 1, 1, 0};
  for (const HostProgramHeader& header : {some_header(), largest, smallest}) {
    EXPECT_EQ(read(spjit::write_header(header)), header) << header.family;
  }
}

TEST(ProgramHeader, KeepsLayoutsAndEveryEpilogue) {
  for (const Layout b : {Layout::row_major, Layout::panel_major, Layout::tokens_major}) {
    for (const Layout c : {Layout::row_major, Layout::panel_major, Layout::tokens_major}) {
      HostProgramHeader header = some_header();
      header.b_layout = b;
      header.c_layout = c;
      EXPECT_EQ(read(spjit::write_header(header)), header);
    }
  }
  for (const bool scale : {false, true}) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true}) {
        for (const Activation activation : k_activations) {
          const HostProgramHeader header = layer_header({scale, bias, residual, activation, 0, 0});
          EXPECT_EQ(read(spjit::write_header(header)), header);
        }
      }
    }
  }
}

TEST(ProgramHeader, KeepsTheBoundsOfClamp) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  struct Bounds {
    float low;
    float high;
  };
  for (const Bounds& bounds : {Bounds{-k_infinite_bound, k_infinite_bound},
                               {-k_infinite_bound, -largest},
                               {largest, k_infinite_bound},
                               {-0.0F, smallest},
                               {0, 0},
                               {-0.5F, 6}}) {
    const Epilogue epilogue{
        .activation = Activation::clamp, .low = bounds.low, .high = bounds.high};
    const Words words = spjit::write_header(layer_header(epilogue));

    const HostProgramHeader header = read(words);

    EXPECT_EQ(header.epilogue, epilogue);
    EXPECT_EQ(spjit::write_header(header), words);  // -0, too
  }
}

TEST(ProgramHeader, RefusesBoundsThatClampDoesNotHave) {
  struct Bounds {
    float low;
    float high;
  };
  const auto said = [](Activation activation, const Bounds& bounds) {
    return header_refusal(spjit::write_header(
        layer_header({.activation = activation, .low = bounds.low, .high = bounds.high})));
  };

  for (const Bounds& bounds : {Bounds{1, 0},
                               {k_nan_bound, 1},
                               {0, k_nan_bound},
                               {k_nan_bound, k_nan_bound},
                               {k_infinite_bound, k_infinite_bound},
                               {-k_infinite_bound, -k_infinite_bound}}) {
    EXPECT_EQ(said(Activation::clamp, bounds), "program record: bounds of clamp");
  }
  for (const Activation activation : {Activation::none, Activation::relu, Activation::silu}) {
    EXPECT_EQ(said(activation, {0, 0}), "");
    for (const Bounds& bounds : {Bounds{0, 1}, {-1, 0}, {-0.0F, 0}, {0, k_nan_bound}}) {
      EXPECT_EQ(said(activation, bounds), "program record: bounds without clamp");
    }
  }
}

TEST(ProgramHeader, KeepsAlphaAndBeta) {
  for (const Epilogue& epilogue :
       {Epilogue{.activation = Activation::leaky_relu, .alpha = 0.01F},
        Epilogue{.activation = Activation::hard_sigmoid, .alpha = -0.0F, .beta = 0.5F}}) {
    const Words words = spjit::write_header(layer_header(epilogue));

    EXPECT_EQ(read(words).epilogue, epilogue);
    EXPECT_EQ(spjit::write_header(read(words)), words);
  }
}

TEST(ProgramHeader, RefusesParametersThatAnActivationDoesNotHave) {
  const auto said = [](Activation activation, float alpha, float beta) {
    return header_refusal(spjit::write_header(
        layer_header({.activation = activation, .alpha = alpha, .beta = beta})));
  };
  const std::string refusal = "program record: parameters of an activation";

  EXPECT_EQ(said(Activation::relu, 0.5F, 0), refusal);
  EXPECT_EQ(said(Activation::clamp, 0, 0.5F), refusal);
  EXPECT_EQ(said(Activation::tanh, -0.0F, 0), refusal);
  EXPECT_EQ(said(Activation::leaky_relu, 0.5F, 0.5F), refusal);
  EXPECT_EQ(said(Activation::leaky_relu, k_nan_bound, 0), refusal);
  EXPECT_EQ(said(Activation::hard_sigmoid, k_infinite_bound, 0), refusal);
  EXPECT_EQ(said(Activation::hard_sigmoid, 0, k_nan_bound), refusal);
}

TEST(ProgramHeader, TokensAreApartOnlyInC) {
  HostProgramHeader header = layer_header({});
  header.ldb = 0;  // of a B without rows
  EXPECT_EQ(header_refusal(spjit::write_header(header)), "");
  header.ldc = header.rows - 1;
  EXPECT_EQ(header_refusal(spjit::write_header(header)), "program record: ldc");
}

TEST(ProgramHeader, SaysWhatAProblemAsksFor) {
  spjit::Problem problem =
      spjit::testing_support::problem_of(spjit::testing_support::small_matrix(), 20);
  problem.n = spjit::Extent::at_run_time(20);
  problem.b.leading_dimension = 24;
  problem.c.layout = Layout::tokens_major;
  problem.epilogue = {.bias = true, .activation = Activation::silu};

  const HostProgramHeader header = spjit::header_of(problem, "csr", HostIsa::avx2);

  HostProgramHeader expected{"csr", HostIsa::avx2, 5, 5, 20, true, 24, 5, 7};
  expected.c_layout = Layout::tokens_major;
  expected.epilogue = problem.epilogue;
  EXPECT_EQ(header, expected);
}

TEST(ProgramHeader, NamesOfFamiliesAreShortAndPlain) {
  for (const std::string family : {"", "CSR", "csr2", "c-r", "csr ", "a name"}) {
    HostProgramHeader header = some_header();
    header.family = family;
    EXPECT_EQ(header_refusal(spjit::write_header(header)), "program record: no name of a family")
        << family;
  }
  HostProgramHeader header = some_header();
  header.family = "abcdefghijklmnopq";
  EXPECT_THROW(static_cast<void>(spjit::write_header(header)), spjit::Error);
}

TEST(ProgramHeader, ANameEndsWithItsFirstZero) {
  Words words = spjit::write_header(some_header());
  words[3] = 'x';  // behind the zeros after "windows"

  EXPECT_EQ(header_refusal(words), "program record: no name of a family");
}

TEST(ProgramHeader, ThePreviousVersionIsRefusedInOneLine) {
  Words words = spjit::write_header(some_header());
  words[1] = spjit::k_host_program_version - 1;

  EXPECT_EQ(header_refusal(words),
            "program record: version 11, this build reads version 12; compile again");
}

TEST(ProgramHeader, EveryWordHasItsRange) {
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
  struct Damage {
    std::size_t word;
    std::vector<std::int64_t> values;
  };
  // n is 20.
  const std::vector<Damage> damages = {{0, {0, 1}},
                                       {1, {0, 11, 13}},
                                       {4, {-1, 3}},
                                       {5, {-1, k_most_dimension + 1}},
                                       {6, {-1, k_most_dimension + 1}},
                                       {7, {-1, 0, k_most_dimension + 1}},
                                       {8, {-1, 2}},
                                       {9, {-1, 0, 19}},
                                       {10, {-1, 0, 19}},
                                       {11, {-1, (std::int64_t{1} << 48) + 1, k_most}},
                                       {12, {-1, 2}},
                                       {13, {-1, 3, k_most}},
                                       {14, {-1, 3, k_most}},
                                       {15, {-1, 8, 9, 10, 16, k_most}},
                                       {16, {-1, 11, k_most}},
                                       {17, {-1, 1, std::int64_t{1} << 31, k_most}},
                                       {18, {-1, 1, std::int64_t{1} << 31, k_most}},
                                       {19, {-1, 1, std::int64_t{1} << 31, k_most}},
                                       {20, {-1, 1, std::int64_t{1} << 31, k_most}},
                                       {21, {-1, 1, 2, 3, 4}}};
  EXPECT_EQ(spjit::write_header(some_header()).size(), 22U);
  for (const Damage& damage : damages) {
    for (const std::int64_t value : damage.values) {
      Words words = spjit::write_header(some_header());
      words[damage.word] = value;

      EXPECT_TRUE(header_refusal(words).starts_with("program record: "))
          << "word " << damage.word << " = " << value;
    }
  }
}

/// Of 12 filters of 3 x 2, 14 x 11 pixels become 7 x 13.
HostProgramHeader convolution_header() {
  HostProgramHeader header{"csr", HostIsa::avx2, 12, 30, 91, false, 160, 91, 50};
  header.convolution = spjit::Convolution{.channels = 5,
                                          .height = 14,
                                          .width = 11,
                                          .kernel_height = 3,
                                          .kernel_width = 2,
                                          .stride_height = 2,
                                          .pad_top = 1,
                                          .pad_left = 2,
                                          .pad_bottom = 0,
                                          .pad_right = 1};
  return header;
}

TEST(ProgramHeader, KeepsAConvolution) {
  HostProgramHeader header = convolution_header();
  EXPECT_EQ(read(spjit::write_header(header)), header);
  header.b_layout = header.c_layout = Layout::tokens_major;
  header.runtime_n = true;
  header.ldb = 1;
  EXPECT_EQ(read(spjit::write_header(header)), header);
}

TEST(ProgramHeader, EveryWordOfAConvolutionHasItsRange) {
  const Words good = spjit::write_header(convolution_header());
  ASSERT_EQ(good.size(), 36U);
  ASSERT_EQ(header_refusal(good), "");
  for (std::size_t word = 22; word < good.size(); ++word) {
    for (const std::int64_t value : {std::int64_t{-1}, k_most_dimension + 1, k_most_dimension}) {
      Words words = good;
      words[word] = value;

      EXPECT_TRUE(header_refusal(words).starts_with("program record: "))
          << "word " << word << " = " << value;
    }
    if (word >= 29 && word <= 32) continue;  // padding may be 0, but not all of its sizes agree
    Words words = good;
    words[word] = 0;
    EXPECT_TRUE(header_refusal(words).ends_with("is 0; expected 1 to 2147483647")) << word;
  }
}

HostProgramHeader typed_header() {
  HostProgramHeader header = some_header();
  header.numerics = {spjit::DataType::i8, spjit::DataType::bf16, spjit::DataType::f16,
                     spjit::Accumulate::bounded(1e-3)};
  return header;
}

TEST(ProgramHeader, KeepsNumericsBehindAConvolutionToo) {
  EXPECT_EQ(read(spjit::write_header(typed_header())), typed_header());
  EXPECT_EQ(spjit::write_header(typed_header()).size(), 27U);
  HostProgramHeader header = convolution_header();
  header.numerics.c = spjit::DataType::bf16;
  EXPECT_EQ(read(spjit::write_header(header)), header);
}

TEST(ProgramHeader, OfDefaultNumericsHasNoWordOfThem) {
  Words words = spjit::write_header(some_header());
  words.at(21) = 2;
  words.insert(words.end(), {0, 0, 0, 0, 0});

  EXPECT_EQ(header_refusal(words), "program record: numerics that are the default");
}

TEST(ProgramHeader, EveryWordOfNumericsHasItsRange) {
  const auto said = [](std::size_t word, std::int64_t value) {
    Words words = spjit::write_header(typed_header());
    words.at(word) = value;
    return header_refusal(words);
  };
  for (std::size_t word = 22; word < 25; ++word) {
    for (const std::int64_t value : {-1, 7}) {
      EXPECT_TRUE(said(word, value).starts_with("program record: ")) << word;
    }
  }
  EXPECT_TRUE(said(25, 4).starts_with("program record: 4 where 0 to 3"));
  EXPECT_EQ(said(25, 0), "program record: eps is 0.001, and the promise is ordered; expected 0");
  EXPECT_TRUE(said(26, 0).starts_with("program record: eps of bounded is 0"));
  EXPECT_TRUE(said(26, std::numeric_limits<std::int64_t>::max())
                  .starts_with("program record: eps of bounded is nan"));
}

TEST(ProgramHeader, KeepsHowBIsQuantized) {
  HostProgramHeader header = some_header();
  header.numerics = {spjit::DataType::i8, spjit::DataType::f32, spjit::DataType::f32,
                     spjit::Accumulate::integer(), spjit::Quantization::token};
  Words words = spjit::write_header(header);

  EXPECT_EQ(read(words), header);
  EXPECT_EQ(words.at(21), 6);
  EXPECT_EQ(words.size(), 28U);
  for (const std::int64_t value : {0, 4}) {
    words.at(27) = value;
    EXPECT_TRUE(header_refusal(words).ends_with("where 1 to 3 was expected")) << value;
  }
  words.at(27) = 1;
  EXPECT_TRUE(header_refusal(words).starts_with("program record: the quantization given is of"));
  words.at(21) = 4;
  EXPECT_EQ(header_refusal(words), "program record: a quantization");
}

TEST(ProgramHeader, SizesAreThoseOfTheConvolution) {
  const auto said = [](const auto& change) {
    HostProgramHeader header = convolution_header();
    change(header);
    return header_refusal(spjit::write_header(header));
  };
  const std::string sizes = "program record: sizes of a convolution";

  EXPECT_EQ(said([](HostProgramHeader& h) { h.cols = 29; }), sizes);
  EXPECT_EQ(said([](HostProgramHeader& h) { h.n = 90; }), sizes);
  EXPECT_EQ(said([](HostProgramHeader& h) { h.b_layout = Layout::panel_major; }), sizes);
  EXPECT_EQ(said([](HostProgramHeader& h) { h.c_layout = Layout::panel_major; }), sizes);
  EXPECT_EQ(said([](HostProgramHeader& h) {
              h.convolution->channels = 10;
              h.convolution->groups = 2;
              h.cols = 60;
            }),
            sizes);
  EXPECT_EQ(said([](HostProgramHeader& h) { h.ldb = 14 * 11; }), "");
  EXPECT_EQ(said([](HostProgramHeader& h) { h.ldb = 14 * 11 - 1; }), "program record: ldb");
  EXPECT_EQ(said([](HostProgramHeader& h) { h.ldc = 90; }), "program record: ldc");
  EXPECT_EQ(said([](HostProgramHeader& h) { h.convolution->groups = 3; }),
            "program record: groups of the convolution is 3; expected a divisor of 5 channels");
}

TEST(ProgramHeader, EveryTruncationIsRefused) {
  for (const HostProgramHeader& header : {some_header(), convolution_header()}) {
    const Words words = spjit::write_header(header);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(
          {
            WordReader reader(bytes.first(size));
            static_cast<void>(spjit::read_header(reader));
          },
          spjit::Error)
          << size;
    }
  }
}

TEST(WordReader, RefusesWhatIsLeftOverAndCountsBeyondTheEnd) {
  const Words list = {3, 1, 2};
  const Words negative = {-1};
  WordReader too_long(std::as_bytes(std::span(list)));
  WordReader below_zero(std::as_bytes(std::span(negative)));
  WordReader unread(std::as_bytes(std::span(list)));
  WordReader read_up(std::as_bytes(std::span(list)));

  EXPECT_THROW(static_cast<void>(too_long.words()), spjit::Error);
  EXPECT_THROW(static_cast<void>(below_zero.words()), spjit::Error);
  EXPECT_THROW(unread.finish(), spjit::Error);
  for (const std::int64_t word : list) EXPECT_EQ(read_up.word(), word);
  EXPECT_NO_THROW(read_up.finish());
  EXPECT_THROW(static_cast<void>(read_up.word()), spjit::Error);
}

TEST(WordReader, ReadsListsAsTheyWereAppended) {
  Words words;
  spjit::append_words(words, {4, -7, 9});
  spjit::append_words(words, {});
  WordReader reader(std::as_bytes(std::span(words)));

  EXPECT_EQ(reader.words(), (Words{4, -7, 9}));
  EXPECT_EQ(reader.words(), Words{});
  EXPECT_NO_THROW(reader.finish());
}

TEST(RangesOfWords, AscendApartWithinTheRows) {
  const Words good = {0, 2, 3, 5};

  EXPECT_EQ(spjit::words_of(spjit::ranges_of(good, 5, "rows")), good);
  for (const Words& bad : {Words{0}, {0, 6}, {3, 2}, {-1, 5}, {0, 2, 1, 5}, {0, 2, 2, 5}, {1, 1}}) {
    EXPECT_THROW(static_cast<void>(spjit::ranges_of(bad, 5, "rows")), spjit::Error);
  }
}

}  // namespace
