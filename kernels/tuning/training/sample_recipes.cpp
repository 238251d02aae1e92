#include "kernels/tuning/training/sample_recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "matrix/random.hpp"

namespace spjit {
namespace {

constexpr double k_most_nonzeros = 5e5;
constexpr double k_most_cuda_nonzeros = 1e5;
constexpr double k_most_products = 6e7;
constexpr double k_most_products_stretched = 2e7;

/// In [0, 1).
double uniform(RandomStream& random) { return static_cast<double>(random.next() >> 11U) * 0x1p-53; }

std::int64_t pick(RandomStream& random, std::span<const std::int64_t> from) {
  return from[random.below(from.size())];
}

/// Evenly by its logarithm.
double log_uniform(RandomStream& random, double least, double most) {
  return least * std::exp2(uniform(random) * std::log2(most / least));
}

/// Tokens, and the pixels of ResNet-50's layers for one image.
constexpr std::array<std::int64_t, 10> k_usual_cuda_n = {128,  196,  256,  512,   784,
                                                         1024, 2048, 3136, 12544, 50176};

std::int64_t draw_size(RandomStream& random) {
  constexpr std::array<std::int64_t, 12> k_usual = {64,  96,  128, 192,  256,  384,
                                                    512, 576, 768, 1024, 1536, 2048};
  if (random.below(2) == 0) return pick(random, k_usual);
  return std::llround(log_uniform(random, 64, 2048));
}

std::int64_t draw_n(RandomStream& random) {
  constexpr std::array<std::int64_t, 14> k_usual = {1,   8,   16,  32,  49,  64,   96,
                                                    128, 196, 256, 512, 784, 1024, 2048};
  if (random.below(2) == 0) return pick(random, k_usual);
  return std::llround(log_uniform(random, 1, 2048));
}

MatrixPattern draw_pattern(RandomStream& random) {
  constexpr std::array<MatrixPattern, 10> k_patterns = {
      MatrixPattern::magnitude,   MatrixPattern::magnitude,   MatrixPattern::magnitude,
      MatrixPattern::magnitude,   MatrixPattern::uniform,     MatrixPattern::uniform,
      MatrixPattern::uneven_rows, MatrixPattern::uneven_rows, MatrixPattern::blocks,
      MatrixPattern::power_law};
  return k_patterns[random.below(k_patterns.size())];
}

/// Makes three in sixteen a classifier with few rows, an embedding, or an unrolled convolution: one
/// dimension far outside of the paper's range. Whether it did.
bool stretch(GenerateOptions& generate, RandomStream& random) {
  constexpr std::int64_t k_most_other = 1024;
  switch (random.below(16)) {
    case 0:
      generate.rows = std::llround(log_uniform(random, 1, 64));
      return true;
    case 1:
      generate.rows = std::llround(log_uniform(random, 2048, 32768));
      generate.cols = std::min(generate.cols, k_most_other);
      return true;
    case 2:
      generate.cols = std::llround(log_uniform(random, 2048, 16384));
      generate.rows = std::min(generate.rows, k_most_other);
      return true;
    default:
      return false;
  }
}

/// Of the i-th recipe.
RandomStream stream_of(std::uint64_t seed, std::int64_t i) {
  return RandomStream(seed * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(i));
}

/// Draws a pattern for so many entries; the i-th recipe has a seed of its own.
void draw_entries(GenerateOptions& generate, double density, std::int64_t i, RandomStream& random) {
  // To a thousandth, so that the name has all of it.
  generate.sparsity = 1 - std::max(std::floor(1000 * density), 1.0) / 1000;
  generate.pattern = draw_pattern(random);
  generate.seed = static_cast<std::uint64_t>(i) + 1;
}

}  // namespace

SampleRecipe draw_recipe(std::uint64_t seed, std::int64_t i) {
  RandomStream random = stream_of(seed, i);
  SampleRecipe recipe;
  GenerateOptions& generate = recipe.generate;
  generate.rows = draw_size(random);
  generate.cols = draw_size(random);
  const bool stretched = stretch(generate, random);
  const double entries = static_cast<double>(generate.rows) * static_cast<double>(generate.cols);
  const double density = std::min(log_uniform(random, 0.01, 0.6), k_most_nonzeros / entries);
  draw_entries(generate, density, i, random);
  recipe.n = draw_n(random);
  const double nnz = (1 - generate.sparsity) * entries;
  const double most = stretched ? k_most_products_stretched : k_most_products;
  while (recipe.n > 1 && nnz * static_cast<double>(recipe.n) > most) recipe.n /= 2;
  return recipe;
}

SampleRecipe draw_cuda_recipe(std::uint64_t seed, std::int64_t i) {
  RandomStream random = stream_of(seed, i);
  SampleRecipe recipe;
  GenerateOptions& generate = recipe.generate;
  generate.rows = draw_size(random);
  generate.cols = draw_size(random);
  const auto rows = static_cast<double>(generate.rows);
  const auto cols = static_cast<double>(generate.cols);
  const double of_row = log_uniform(random, 4, std::min(1024.0, 0.6 * cols));
  const double density = std::min(of_row / cols, k_most_cuda_nonzeros / (rows * cols));
  draw_entries(generate, density, i, random);
  recipe.n = random.below(2) == 0 ? pick(random, k_usual_cuda_n)
                                  : std::llround(log_uniform(random, 128, 50176));
  return recipe;
}

std::string name_of(const SampleRecipe& recipe) {
  const GenerateOptions& generate = recipe.generate;
  return fmt::format("{} {}x{} {:.1f} % s{} n{}", to_string(generate.pattern), generate.rows,
                     generate.cols, 100 * generate.sparsity, generate.seed, recipe.n);
}

nlohmann::json to_json(const SampleRecipe& recipe) {
  const GenerateOptions& generate = recipe.generate;
  return {{"rows", generate.rows},
          {"cols", generate.cols},
          {"sparsity", generate.sparsity},
          {"pattern", std::string(to_string(generate.pattern))},
          {"seed", generate.seed}};
}

}  // namespace spjit
