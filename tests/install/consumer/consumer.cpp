// A user's program against an installed spjit: includes what is installed, links it, throws across
// its border.

#include <cstdio>
#include <spjit/error.hpp>
#include <spjit/generate.hpp>
#include <spjit/matrix.hpp>
#include <spjit/version.hpp>
#include <string_view>

int main() {
  if (std::string_view(SPJIT_VERSION) != SPJIT_EXPECTED_VERSION) {
    std::printf("headers are of version %s, the package of %s\n", SPJIT_VERSION,
                SPJIT_EXPECTED_VERSION);
    return 1;
  }

  spjit::CsrMatrix matrix = spjit::generate_matrix({.rows = 32, .cols = 16, .sparsity = 0.75});
  matrix.validate();
  if (matrix.nnz() != 128) {
    std::printf("expected 128 entries, got %lld\n", static_cast<long long>(matrix.nnz()));
    return 1;
  }

  matrix.col_idxs[0] = -1;
  try {
    matrix.validate();
  } catch (const spjit::InvalidMatrix& error) {
    std::printf("spjit %s refuses as it should: %s\n", SPJIT_VERSION, error.what());
    return 0;
  }
  std::printf("a negative column passed validate()\n");
  return 1;
}
