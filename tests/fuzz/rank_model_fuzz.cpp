// Rank models: what is read can be written, comes back the same, and scores any row, packed or not.

#include <limits>
#include <vector>

#include "rankmodel/rank_model.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

void check_scores(const RankModel& model) {
  const std::size_t columns = model.features.size();
  std::vector<float> rows(3 * columns, 0.0F);
  for (std::size_t i = 0; i < columns; ++i) {
    rows[columns + i] = static_cast<float>(i) - 1.5F;
    rows[2 * columns + i] = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                       : std::numeric_limits<float>::infinity();
  }
  const std::vector<double> scores = model.scores(rows);
  expect(scores.size() == 3, "not a score for each row");
  for (std::size_t row = 0; row < scores.size(); ++row) {
    expect(scores[row] == model.score(std::span(rows).subspan(row * columns, columns)),
           "a row's score depends on how it is asked for");
  }
}

void run(std::string_view text) {
  constexpr std::size_t k_per_byte = 64;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const auto model =
      read_within(k_per_byte * text.size() + k_fixed, {}, [&] { return read_rank_model(text); });
  if (!model) return;
  const std::string written = write_rank_model(*model);
  const RankModel again = read_rank_model(written);
  expect(again == *model, "the model is another after writing and reading");
  expect(write_rank_model(again) == written, "equal models give other bytes");
  check_scores(*model);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
