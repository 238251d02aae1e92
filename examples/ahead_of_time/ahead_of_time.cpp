// Runs a kernel that `spjit compile --emit obj,header` made when this program was built. The weight
// file is needed only to check the result.

#include <cmath>
#include <cstddef>
#include <exception>
#include <iostream>
#include <spjit/kernel.hpp>
#include <spjit/matrix_io.hpp>
#include <vector>

#include "kernels/weights.hpp"

namespace {

/// A * B row by row in double precision; true if every element of C is as near as fp32 allows.
bool is_product(const spjit::CsrMatrix& a, const std::vector<float>& b, const std::vector<float>& c,
                std::size_t n) {
  for (std::size_t row = 0; row + 1 < a.row_ptrs.size(); ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = 0;
      for (auto i = static_cast<std::size_t>(a.row_ptrs[row]);
           i < static_cast<std::size_t>(a.row_ptrs[row + 1]); ++i) {
        const auto k = static_cast<std::size_t>(a.col_idxs[i]);
        sum += static_cast<double>(a.values[i]) * static_cast<double>(b[k * n + column]);
      }
      constexpr double k_tolerance = 1e-5;  // a few dozen fp32 additions of numbers around 1
      if (!(std::fabs(sum - static_cast<double>(c[row * n + column])) < k_tolerance)) return false;
    }
  }
  return true;
}

int run(const char* file) {
  const spjit::Kernel kernel = weights();
  std::vector<float> b(static_cast<std::size_t>(kernel.cols() * kernel.n()));
  std::vector<float> c(static_cast<std::size_t>(kernel.rows() * kernel.n()));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));

  kernel.run(b.data(), c.data());

  const spjit::CsrMatrix a = spjit::load_matrix(file);
  const bool good = a.rows == kernel.rows() && a.cols == kernel.cols() &&
                    is_product(a, b, c, static_cast<std::size_t>(kernel.n()));
  std::cout << "linked kernel for " << kernel.info().target.name() << ", "
            << kernel.info().code_bytes
            << " bytes of code: " << (good ? "C = A * B\n" : "C differs from A * B\n");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return run(argv[1]);
    std::cerr << "usage: ahead_of_time MATRIX_FILE\n";
  } catch (const std::exception& error) {
    std::cerr << "ahead_of_time: " << error.what() << "\n";
  }
  return 2;
}
