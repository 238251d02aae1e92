// Readers take files from anywhere: whatever the bytes, the outcome is a valid matrix or an Error.

#include <gtest/gtest.h>

#include <algorithm>

#include "matrix/npy_reader.hpp"
#include "matrix/random.hpp"
#include "matrix/readers.hpp"
#include "matrix/writers.hpp"
#include "spjit/generate.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

constexpr int k_rounds = 3000;

std::string_view as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = test::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// One to four edits: a byte changed, a stretch removed, a stretch repeated.
std::vector<std::byte> damage(std::vector<std::byte> bytes, RandomStream& random) {
  constexpr std::string_view k_likely = "0123456789-+.eE, \n\r%'(){}naif";
  for (std::uint64_t edit = 1 + random.below(4); edit > 0 && !bytes.empty(); --edit) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size()));
    const auto left = static_cast<std::uint64_t>(bytes.end() - at);
    const auto length =
        static_cast<std::ptrdiff_t>(1 + random.below(std::min<std::uint64_t>(left, 40)));
    switch (random.below(4)) {
      case 0:
        *at = static_cast<std::byte>(random.below(256));
        break;
      case 1:
        *at = static_cast<std::byte>(k_likely[random.below(k_likely.size())]);
        break;
      case 2:
        bytes.erase(at, at + length);
        break;
      default: {
        const std::vector<std::byte> copy(at, at + length);
        bytes.insert(at, copy.begin(), copy.end());
      }
    }
  }
  return bytes;
}

// Returns how many damaged copies were refused.
template <typename Parse>
int refuse_damaged(const std::vector<std::byte>& original, Parse&& parse) {
  RandomStream random(20240607);
  int refused = 0;
  for (int round = 0; round < k_rounds; ++round) {
    const std::vector<std::byte> bytes = damage(original, random);
    try {
      parse(bytes).validate();
    } catch (const InvalidMatrix& error) {
      ADD_FAILURE() << "a reader let an invalid matrix through: " << error.what();
    } catch (const Error&) {
      ++refused;
    }
  }
  return refused;
}

CsrMatrix small_matrix() {
  GenerateOptions options;
  options.rows = 9;
  options.cols = 12;
  options.sparsity = 0.7;
  return generate_matrix(options);
}

TEST(DamagedFiles, SmtxIsReadOrRefused) {
  const auto original = bytes_of("5, 5, 9\n0 2 2 3 8 9 \n0 3 2 0 1 2 3 4 0 \n");

  const int refused = refuse_damaged(original, [](const std::vector<std::byte>& bytes) {
    return parse_smtx(as_text(bytes), "x", {});
  });

  EXPECT_GT(refused, k_rounds / 2);
}

TEST(DamagedFiles, MtxIsReadOrRefused) {
  const auto parse = [](const std::vector<std::byte>& bytes) {
    return parse_mtx(as_text(bytes), "x", {});
  };
  const auto general = bytes_of(format_mtx(small_matrix()));
  const auto symmetric = bytes_of(
      "%%MatrixMarket matrix coordinate complex symmetric\n4 4 3\n1 1 1 0\n3 2 2.5 0\n4 1 -1 0\n");
  const auto array = bytes_of("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n");

  EXPECT_GT(refuse_damaged(general, parse), k_rounds / 2);
  EXPECT_GT(refuse_damaged(symmetric, parse), k_rounds / 2);
  EXPECT_GT(refuse_damaged(array, parse), k_rounds / 2);
}

TEST(DamagedFiles, NpyIsReadOrRefused) {
  const std::vector<double> values = {1, 0, 2, -3, 0, 4};
  const auto original = make_npy("<f8", "(2, 3)", std::as_bytes(std::span(values)));

  const int refused = refuse_damaged(
      original, [](const std::vector<std::byte>& bytes) { return parse_npy(bytes, "x", {}); });

  EXPECT_GT(refused, k_rounds / 2);
}

TEST(DamagedFiles, NpzIsReadOrRefused) {
  const auto parse = [](const std::vector<std::byte>& bytes) { return parse_npz(bytes, "x", {}); };

  EXPECT_GT(refuse_damaged(format_npz(small_matrix(), true, "x"), parse), k_rounds / 2);
  EXPECT_GT(refuse_damaged(format_npz(small_matrix(), false, "x"), parse), k_rounds / 2);
}

}  // namespace
}  // namespace spjit
