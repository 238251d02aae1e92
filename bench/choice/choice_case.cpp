#include "bench/choice/choice_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "artifact/families.hpp"
#include "base/arithmetic.hpp"
#include "matrix/random.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

constexpr std::array<std::int64_t, 13> k_sides = {16,   64,   128,  256,  384,  512,  768,
                                                  1024, 1536, 2048, 4096, 8192, 16384};
constexpr std::array k_sparsities = {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99};
constexpr std::array<std::int64_t, 12> k_columns = {1,  2,   4,   8,   16,   32,
                                                    64, 128, 256, 512, 1024, 4096};
constexpr double k_most_nonzeros = 6e6;
constexpr double k_most_products = 6e8;
constexpr double k_most_dense_floats = 6.4e7;

template <class Values>
auto draw_one(const Values& values, RandomStream& random) {
  return values[random.below(values.size())];
}

bool is_small_enough(const ChoiceCase& what) {
  const double nnz = as_double(what.rows) * as_double(what.cols) * (1 - what.sparsity);
  const double n = as_double(what.n);
  return nnz >= 1 && nnz <= k_most_nonzeros && nnz * n <= k_most_products &&
         as_double(what.rows + what.cols) * n <= k_most_dense_floats;
}

}  // namespace

ChoiceCase draw_case(std::uint64_t seed, std::int64_t number, bool hot) {
  constexpr std::uint64_t k_numbers_a_seed = 1'000'003;
  RandomStream random(seed * k_numbers_a_seed + static_cast<std::uint64_t>(number));
  for (;;) {
    ChoiceCase drawn;
    drawn.rows = draw_one(k_sides, random);
    drawn.cols = draw_one(k_sides, random);
    drawn.sparsity = draw_one(k_sparsities, random);
    drawn.n = draw_one(k_columns, random);
    drawn.hot = hot;
    if (is_small_enough(drawn)) return drawn;
  }
}

ChoiceCase file_case(const std::string& file, std::int64_t n, bool hot) {
  const CsrMatrix matrix = load_matrix(file);
  const double places = std::max(as_double(matrix.rows) * as_double(matrix.cols), 1.0);
  return {matrix.rows, matrix.cols, 1 - as_double(matrix.nnz()) / places, n, hot, file};
}

CsrMatrix matrix_of(const ChoiceCase& what) {
  if (!what.file.empty()) return load_matrix(what.file);
  GenerateOptions options;
  options.rows = what.rows;
  options.cols = what.cols;
  options.sparsity = what.sparsity;
  return generate_matrix(options);
}

std::string family_chosen(const ChoiceCase& what, const CsrMatrix& matrix,
                          const HostDeviceInfo& limits) {
  Problem problem;
  problem.a = matrix;
  problem.n = what.n;
  CompileOptions options;
  options.target = Target(limits.isa);
  options.policy.hot = what.hot;
  options.policy.values["choice"] = "rules";
  const DeviceInfo device = limits;
  const KernelFamily* family = chosen_family({problem, options, device, {}});
  return family == nullptr ? std::string() : std::string(family->name());
}

}  // namespace spjit::bench
