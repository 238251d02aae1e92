#include "spjit/model_io.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "matrix/model_weights.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

/// Those of a name. Throws IoError.
StoredWeights weights_of(const TensorFile& file, const std::string& name) {
  const std::vector<StoredWeights> all = weights_in(file);
  const auto found = std::ranges::find(
      all, name, [](const StoredWeights& weights) -> const auto& { return weights.what.name; });
  if (found == all.end()) {
    fail_to_read(file.name(), fmt::format("there are no weights {}; list_weights() names those "
                                          "that are",
                                          quoted_word(name)));
  }
  return *found;
}

}  // namespace

std::vector<WeightTensor> list_weights(const std::filesystem::path& path) {
  const TensorFile file = TensorFile::open(path, path.string());
  std::vector<WeightTensor> listed;
  for (StoredWeights& weights : weights_in(file)) listed.push_back(std::move(weights.what));
  return listed;
}

CsrMatrix load_weights(const std::filesystem::path& path, const std::string& name) {
  const TensorFile file = TensorFile::open(path, path.string());
  return read_weights(file, weights_of(file, name));
}

std::vector<float> load_weight_scale(const std::filesystem::path& path, const std::string& name) {
  const TensorFile file = TensorFile::open(path, path.string());
  return read_scale(file, weights_of(file, name));
}

}  // namespace spjit
