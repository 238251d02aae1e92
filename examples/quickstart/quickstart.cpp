// The shortest program with spjit: load a pruned weight matrix, compile it, multiply. The rest
// checks the result.

#include <cmath>
#include <cstddef>
#include <exception>
#include <iostream>
#include <spjit/spjit.hpp>
#include <vector>

namespace {

/// Largest |c - A * b| over the elements, with A * b summed in double precision.
double largest_error(const spjit::CsrMatrix& a, const std::vector<float>& b,
                     const std::vector<float>& c, std::size_t n) {
  double largest = 0;
  for (std::size_t row = 0; row + 1 < a.row_ptrs.size(); ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = 0;
      for (auto i = static_cast<std::size_t>(a.row_ptrs[row]);
           i < static_cast<std::size_t>(a.row_ptrs[row + 1]); ++i) {
        const auto k = static_cast<std::size_t>(a.col_idxs[i]);
        sum += static_cast<double>(a.values[i]) * static_cast<double>(b[k * n + column]);
      }
      largest = std::fmax(largest, std::fabs(sum - static_cast<double>(c[row * n + column])));
    }
  }
  return largest;
}

/// Numbers in [-1, 1] that are all a little different.
std::vector<float> some_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = std::sin(static_cast<float>(i));
  return numbers;
}

int run(const char* file) {
  const spjit::CsrMatrix a = spjit::load_matrix(file);              // A [m x k], sparse
  const spjit::Kernel kernel = spjit::compile({.a = a, .n = 128});  // for B with 128 columns
  const std::vector<float> b = some_numbers(static_cast<std::size_t>(a.cols * kernel.n()));
  std::vector<float> c(static_cast<std::size_t>(a.rows * kernel.n()));
  kernel.run(b.data(), c.data());  // C [m x 128] = A * B [k x 128]

  const spjit::KernelInfo& info = kernel.info();
  const double error = largest_error(a, b, c, static_cast<std::size_t>(kernel.n()));
  std::cout << "A [" << info.rows << " x " << info.cols << "], " << info.nnz << " nonzeros, "
            << info.target.name() << ", tile " << info.tile
            << (info.from_cache ? ", from the cache" : ", compiled") << " in " << info.compile_ms
            << " ms; largest error " << error << "\n";
  constexpr double k_tolerance = 1e-5;  // a few dozen fp32 additions of numbers around 1
  return error < k_tolerance ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return run(argv[1]);
    std::cerr << "usage: quickstart MATRIX_FILE\n";
  } catch (const std::exception& error) {
    std::cerr << "quickstart: " << error.what() << "\n";
  }
  return 2;
}
