// Which family the rules choose for layers of networks, on every kind of device, as
// tests/golden/choices.txt has it: a change of the rules shows there, and one that is to change
// none must leave the file as it is.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "plan/problem.hpp"
#include "spjit/generate.hpp"
#include "tests/support/files/golden.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::Problem;

/// MiniLM, DLMC's Transformer, ResNet-50 and the digits' MLP; then what is tall, wide or tiny.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 19> k_shapes = {{{384, 384},
                                                                             {1536, 384},
                                                                             {384, 1536},
                                                                             {512, 512},
                                                                             {2048, 512},
                                                                             {64, 256},
                                                                             {256, 64},
                                                                             {128, 1152},
                                                                             {256, 1024},
                                                                             {1024, 256},
                                                                             {128, 64},
                                                                             {10, 128},
                                                                             {4096, 16},
                                                                             {8144, 11},
                                                                             {4096, 256},
                                                                             {64, 4096},
                                                                             {16, 8192},
                                                                             {64, 20000},
                                                                             {16, 24}}};
constexpr std::array k_sparsities = {0.3, 0.6, 0.8, 0.9, 0.95, 0.98};
constexpr std::array<std::int64_t, 12> k_columns = {1, 2, 3, 4, 8, 16, 32, 64, 128, 255, 256, 600};
constexpr std::array k_targets = {"host-avx2:zen3",
                                  "host-avx2:cascadelake",
                                  "host-avx512:zen5",
                                  "host-avx512:cascadelake",
                                  "host-avx512:sapphire-rapids",
                                  "host-generic:any",
                                  "sm_80:a100-80",
                                  "sm_90:h100"};

/// How a layer is used.
struct Way {
  std::string_view name;
  bool hot = false;
  std::int64_t network_nnz = 0;
  bool runtime_n = false;
  bool tokens = false;
  bool panels = false;
};
constexpr std::array k_ways = {Way{"hot", true},
                               Way{"cold"},
                               Way{"L2", false, 60'000},
                               Way{"L3", false, 450'000},
                               Way{"any", false, 0, true},
                               Way{"hot any", true, 0, true},
                               Way{"tokens", false, 0, false, true},
                               Way{"panels", true, 0, false, false, true}};

/// Of "compact" and "csr" the latter is a loop.
char letter_of(const spjit::KernelFamily* family) {
  if (family == nullptr) return '-';
  return family->name() == "csr" ? 'l' : family->name().front();
}

class Choices {
 public:
  explicit Choices(const char* target) {
    options_.target = spjit::Target::parse(target);
    device_ = spjit::device_info_of(options_.target);
  }

  /// A letter for each n.
  std::string of(const std::shared_ptr<const CsrMatrix>& a, const Way& way) {
    std::string letters;
    for (const std::int64_t n : k_columns) {
      Problem problem;
      problem.a = a;
      problem.n = way.runtime_n ? spjit::Extent::at_run_time(n) : spjit::Extent(n);
      if (way.tokens) problem.b.layout = problem.c.layout = spjit::Layout::tokens_major;
      if (way.panels) problem.panel_columns = spjit::lanes_of(options_.target.isa());
      letters += of(problem, way);
    }
    return letters;
  }

  char of(const Problem& problem, const Way& way) {
    options_.policy.hot = way.hot;
    options_.policy.network_nnz = way.network_nnz;
    const Problem checked = spjit::checked_problem(problem);
    return letter_of(spjit::chosen_family({checked, options_, device_, {}}));
  }

  [[nodiscard]] bool is_host() const {
    return std::holds_alternative<spjit::HostDeviceInfo>(device_);
  }

 private:
  spjit::CompileOptions options_;
  spjit::DeviceInfo device_;
};

std::shared_ptr<const CsrMatrix> matrix_of(std::int64_t rows, std::int64_t cols, double sparsity,
                                           std::int64_t pattern_rows = 1) {
  spjit::GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  CsrMatrix matrix = spjit::generate_matrix(options);
  if (pattern_rows == 1) return std::make_shared<const CsrMatrix>(std::move(matrix));
  // Each row so many times: rows that are alike.
  CsrMatrix alike{0, cols, {0}, {}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = matrix.col_idxs.begin() + matrix.row_ptrs[static_cast<std::size_t>(row)];
    const auto end = matrix.col_idxs.begin() + matrix.row_ptrs[static_cast<std::size_t>(row + 1)];
    for (std::int64_t i = 0; i < pattern_rows; ++i) {
      alike.col_idxs.insert(alike.col_idxs.end(), begin, end);
      alike.values.resize(alike.col_idxs.size(), 1);
      alike.row_ptrs.push_back(alike.nnz());
      ++alike.rows;
    }
  }
  return std::make_shared<const CsrMatrix>(std::move(alike));
}

void add_line(std::string& text, const std::string& name, const char* target,
              const std::shared_ptr<const CsrMatrix>& a) {
  Choices choices(target);
  text += fmt::format("{} {}:", name, target);
  for (const Way& way : k_ways) {
    if (!choices.is_host() && (way.hot || way.panels || way.network_nnz > 0)) continue;
    text += fmt::format(" {}={}", way.name, choices.of(a, way));
  }
  text += '\n';
}

std::string products() {
  constexpr std::int64_t k_most_nonzeros = 100'000;
  std::string text;
  for (const auto& [rows, cols] : k_shapes) {
    for (const double sparsity : k_sparsities) {
      const auto a = matrix_of(rows, cols, sparsity);
      if (a->nnz() > k_most_nonzeros) continue;
      const std::string name = fmt::format("{}x{} at {:.0f} %", rows, cols, 100 * sparsity);
      for (const char* target : k_targets) add_line(text, name, target, a);
    }
  }
  for (const std::int64_t alike : {4, 16}) {
    const auto a = matrix_of(1024 / alike, 512, 0.9, alike);
    for (const char* target : k_targets) {
      add_line(text, fmt::format("1024x512 at 90 %, rows alike by {}", alike), target, a);
    }
  }
  return text;
}

/// Convolutions of a pruned network, one of them depthwise.
std::string convolutions() {
  struct Layer {
    std::int64_t filters;
    std::int64_t channels;
    std::int64_t kernel;
    std::int64_t image;
    double sparsity;
  };
  constexpr std::array<Layer, 6> k_layers = {{{64, 64, 3, 56, 0.9},
                                              {128, 128, 3, 28, 0.9},
                                              {128, 128, 3, 28, 0.8},
                                              {512, 64, 3, 7, 0.95},
                                              {256, 64, 1, 56, 0.9},
                                              {24, 3, 3, 112, 0.5}}};
  std::string text;
  for (const Layer& layer : k_layers) {
    Problem problem;
    problem.operation = spjit::Operation::conv2d;
    spjit::Convolution convolution;
    convolution.channels = layer.channels;
    convolution.height = convolution.width = layer.image;
    convolution.kernel_height = convolution.kernel_width = layer.kernel;
    convolution.pad_top = convolution.pad_left = layer.kernel / 2;
    convolution.pad_bottom = convolution.pad_right = layer.kernel / 2;
    problem.convolution = convolution;
    problem.a =
        matrix_of(layer.filters, layer.channels * layer.kernel * layer.kernel, layer.sparsity);
    for (const char* target : k_targets) {
      Choices choices(target);
      text += fmt::format(
          "{} filters {}x{} of {} channels, {} pixels, {:.0f} % {}: ", layer.filters, layer.kernel,
          layer.kernel, layer.channels, layer.image, 100 * layer.sparsity, target);
      for (const Way& way : {k_ways[0], k_ways[1], k_ways[2]}) text += choices.of(problem, way);
      text += '\n';
    }
  }
  return text;
}

TEST(Choices, AreThoseOfTheGoldenFile) {
  const std::filesystem::path path =
      std::filesystem::path(SPJIT_SOURCE_DIR) / "tests" / "golden" / "choices.txt";
  const std::string actual = products() + convolutions();

  const char* update = std::getenv("SPJIT_UPDATE_GOLDEN");
  if (update != nullptr && *update != '\0') std::ofstream(path, std::ios::binary) << actual;
  const std::string expected = spjit::testing_support::read_text(path);

  ASSERT_FALSE(expected.empty()) << path;
  EXPECT_TRUE(actual == expected) << path << ": the rules choose others; run with "
                                  << "SPJIT_UPDATE_GOLDEN=1 and look at the difference";
}

/// What takes a product of 90 % zeros for an H100, in a network of so many nonzeros.
char family_on_gpu(std::int64_t network_nnz, double sparsity, std::int64_t n, bool hot) {
  Problem problem;
  problem.a = matrix_of(256, 128, sparsity);
  problem.n = spjit::Extent(n);
  Way way{};
  way.network_nnz = network_nnz;
  way.hot = hot;
  return Choices("sm_90").of(problem, way);
}

TEST(Choices, OfGpusInLargeNetworksReadA) {
  constexpr std::int64_t k_far = 2 << 20;  // 32 MiB of instructions of 16 bytes
  const char data = family_on_gpu(k_far, 0.9, 1024, false);
  const char code = family_on_gpu(k_far - 1, 0.9, 1024, false);
  EXPECT_NE(data, code);

  EXPECT_EQ(family_on_gpu(0, 0.9, 1024, false), code);
  EXPECT_EQ(family_on_gpu(std::numeric_limits<std::int64_t>::max(), 0.9, 1024, false), data);
  EXPECT_EQ(family_on_gpu(k_far, 0.9, 1024, true), code);
  EXPECT_EQ(family_on_gpu(k_far, 0.9, 1025, false), code);
  EXPECT_EQ(family_on_gpu(k_far, 0.6, 1024, false), code);
}

/// A table of the docs.
std::string table_of(const spjit::Backend& backend) {
  std::string text = "| family | leaves a problem to others where |\n|---|---|\n";
  for (const spjit::ChoiceRule& rule : backend.rules()) {
    text += fmt::format("| `{}` | {} |\n", rule.family, rule.when);
  }
  return text;
}

TEST(ChoiceRules, AreInTheDocs) {
  constexpr std::string_view k_begin =
      "<!-- rules of the choice: unit_artifact writes them with SPJIT_UPDATE_GOLDEN=1 -->\n";
  constexpr std::string_view k_end = "<!-- end of the rules -->";
  for (const spjit::Backend* backend : spjit::backends()) {
    const std::filesystem::path path = std::filesystem::path(SPJIT_SOURCE_DIR) / "docs" / "design" /
                                       fmt::format("{}.md", backend->name());
    std::string text = spjit::testing_support::read_text(path);
    const std::size_t begin = text.find(k_begin);
    const std::size_t end = text.find(k_end);
    ASSERT_NE(begin, std::string::npos) << path;
    ASSERT_NE(end, std::string::npos) << path;
    const std::size_t first = begin + k_begin.size();

    const char* update = std::getenv("SPJIT_UPDATE_GOLDEN");
    if (update != nullptr && *update != '\0') {
      std::ofstream(path, std::ios::binary) << text.replace(first, end - first, table_of(*backend));
      continue;
    }
    EXPECT_EQ(text.substr(first, end - first), table_of(*backend)) << path;
  }
}

TEST(ChoiceRules, AreOfFamiliesThatThereAre) {
  for (const spjit::Backend* backend : spjit::backends()) {
    for (const spjit::ChoiceRule& rule : backend->rules()) {
      EXPECT_NO_THROW(static_cast<void>(backend->family(rule.family))) << rule.family;
    }
  }
}

}  // namespace
