#include "bench/host/workloads.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spjit/generate.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;

MatrixSource generated(std::int64_t rows, std::int64_t cols, double sparsity) {
  return {fmt::format("uniform/{}x{}/{:.4g}", rows, cols, sparsity),
          "generated",
          {},
          rows,
          cols,
          sparsity,
          false};
}

std::vector<MatrixSource> files_below(const fs::path& folder) {
  std::vector<MatrixSource> workloads;
  if (!fs::is_directory(folder)) return workloads;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".smtx") continue;
    const std::string name = fs::relative(entry.path(), folder).replace_extension().string();
    workloads.push_back({name, "dlmc", entry.path(), 0, 0, 0, false});
  }
  std::sort(
      workloads.begin(), workloads.end(),
      [](const MatrixSource& left, const MatrixSource& right) { return left.name < right.name; });
  return workloads;
}

}  // namespace

CsrMatrix MatrixSource::load() const {
  if (!file.empty()) return load_matrix(file);
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  return generate_matrix(options);
}

std::vector<MatrixSource> list_matrix_sources(const fs::path& folder) {
  std::vector<MatrixSource> workloads = files_below(folder);
  if (workloads.empty()) {
    for (const double sparsity : {0.5, 0.7, 0.8, 0.9, 0.95}) {
      workloads.push_back(generated(512, 512, sparsity));
    }
    workloads.push_back(generated(2048, 512, 0.9));
    workloads.push_back(generated(512, 2048, 0.9));
  }
  workloads.push_back(generated(2048, 512, 0.95));
  workloads.push_back(generated(512, 2048, 0.95));
  workloads.push_back(generated(2048, 1024, 0.9));
  workloads.push_back(generated(2048, 1024, 0.95));
  constexpr double k_two_million = 2e6;
  workloads.push_back(generated(4096, 4096, 1 - k_two_million / (4096.0 * 4096.0)));
  workloads.back().large = true;
  return workloads;
}

}  // namespace spjit::bench
