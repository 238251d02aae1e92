// .safetensors: what is read are valid matrices, the counts of nonzeros are theirs, and memory is a
// multiple of the file's. Biases and scales are read, too.

#include <algorithm>
#include <vector>

#include "base/arithmetic.hpp"
#include "matrix/model_weights.hpp"
#include "tests/fuzz/matrix_checks.hpp"

namespace spjit::fuzz {
namespace {

constexpr Refusal k_refusal = {"x.safetensors", false};
// Of a header's JSON: the document, tensors made of it, and names of its members.
constexpr std::size_t k_per_byte = 320;

// Messages begin with the file, then say which tensor, in more than one way.
constexpr Refusal k_any_refusal = {"", false};

void check_weights(const TensorFile& file, const StoredWeights& weights, std::size_t most) {
  const auto nonzeros =
      read_within(most, k_any_refusal, [&] { return count_nonzeros(file, weights); });
  static_cast<void>(read_within(most, k_any_refusal, [&] { return read_bias(file, weights); }));
  static_cast<void>(read_within(most + 8 * to_size(weights.rows), k_any_refusal,
                                [&] { return read_scale(file, weights); }));
  if (weights.rows > k_most_rows) return;
  const auto matrix = read_within(most + 8 * to_size(weights.rows), k_any_refusal,
                                  [&] { return read_weights(file, weights); });
  if (!matrix) return;
  matrix->validate();
  expect(nonzeros == matrix->nnz(), "as many nonzeros are counted as read");
  expect(std::ranges::find(matrix->values, 0.0F) == matrix->values.end(), "no zero is an entry");
}

void run(Bytes bytes) {
  const std::size_t most = matrix_allowance(k_per_byte, bytes.size(), 0);
  const auto file = read_within(
      most, k_refusal, [&] { return TensorFile::of_bytes(bytes, std::string(k_refusal.name)); });
  if (!file) return;
  const auto all = read_within(most, k_refusal, [&] { return weights_in(*file); });
  if (!all) return;
  for (const StoredWeights& weights : *all) check_weights(*file, weights, most);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
