// A user's program against an installed spjit: includes what is installed, links it, compiles and
// runs a kernel, throws across its border.

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <spjit/spjit.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

int fail(const char* what) {
  std::printf("%s\n", what);
  return 1;
}

/// B of ones: each row of C is the sum of a row of A.
bool adds_up(const spjit::CsrMatrix& a, const spjit::Kernel& kernel) {
  const auto n = static_cast<std::size_t>(kernel.n());
  const std::vector<float> b(static_cast<std::size_t>(a.cols) * n, 1);
  std::vector<float> c(static_cast<std::size_t>(a.rows) * n, -1);
  kernel.run(b.data(), c.data());
  for (std::size_t row = 0; row + 1 < a.row_ptrs.size(); ++row) {
    double sum = 0;
    for (auto i = a.row_ptrs[row]; i < a.row_ptrs[row + 1]; ++i) {
      sum += static_cast<double>(a.values[static_cast<std::size_t>(i)]);
    }
    for (std::size_t column = 0; column < n; ++column) {
      if (!(std::fabs(static_cast<double>(c[row * n + column]) - sum) < 1e-4)) return false;
    }
  }
  return true;
}

/// The models that rank tiles are inside the library: no file has to be found.
bool names_its_model(const spjit::Kernel& kernel) {
  const std::string target = kernel.info().target.name();
  const std::string model = target == "host-generic" ? "prior" : target;
  return kernel.record().find("\"ranked_by\": \"" + model + "\"") != std::string::npos;
}

int use(spjit::CsrMatrix matrix) {
  matrix.validate();
  if (matrix.nnz() != 128) {
    std::printf("expected 128 entries, got %lld\n", static_cast<long long>(matrix.nnz()));
    return 1;
  }

  spjit::CompileOptions options;
  options.policy.search = spjit::SearchMode::ranked;
  options.policy.family = "unrolled";
  const spjit::Kernel kernel = spjit::compile({.a = matrix, .n = 48}, options);
  if (!adds_up(matrix, kernel)) return fail("the kernel's result is wrong");
  if (!names_its_model(kernel)) {
    std::printf("no model of this CPU in the record: %s\n", kernel.record().c_str());
    return 1;
  }

  matrix.col_idxs[0] = -1;
  try {
    matrix.validate();
  } catch (const spjit::InvalidMatrix& error) {
    std::printf("spjit %s refuses as it should: %s\n", SPJIT_VERSION, error.what());
    return 0;
  }
  return fail("a negative column passed validate()");
}

}  // namespace

int main() {
  if (std::string_view(SPJIT_VERSION) != SPJIT_EXPECTED_VERSION) {
    std::printf("headers are of version %s, the package of %s\n", SPJIT_VERSION,
                SPJIT_EXPECTED_VERSION);
    return 1;
  }
  return use(spjit::generate_matrix({.rows = 32, .cols = 16, .sparsity = 0.75}));
}
