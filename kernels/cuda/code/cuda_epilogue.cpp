#include "kernels/cuda/code/cuda_epilogue.hpp"

#include <fmt/format.h>

#include "base/arithmetic.hpp"

namespace spjit {

std::vector<std::string> sum_names(std::int64_t first, std::int64_t count) {
  std::vector<std::string> names;
  names.reserve(to_size(count));
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("c{}", first + i));
  return names;
}

void read_operands_of_c(CudaCode& code, const CudaLayer& layer, std::string_view item) {
  code.read("c");
  code.read("c_distance");
  code.move_to_item("c", item, "c_distance");
  if (layer.epilogue.scale) code.read("scale");
  if (layer.epilogue.bias) code.read("bias");
  if (!layer.epilogue.residual) return;
  code.read("residual");
  code.read("residual_distance");
  code.move_to_item("residual", item, "residual_distance");
}

void load_row_operands(CudaCode& code, const CudaLayer& layer, std::string_view row,
                       std::int64_t number) {
  const auto load = [&](const std::string& name) {
    code.move("of_" + name, name, row);
    code.load(fmt::format("{}_of_row{}", name, number), {"of_" + name});
  };
  if (layer.epilogue.scale) load("scale");
  if (layer.epilogue.bias) load("bias");
}

void finish_sums(CudaCode& code, const CudaLayer& layer, std::span<const SumsOfRow> all) {
  const Epilogue& epilogue = layer.epilogue;
  const auto residuals_of = [](const SumsOfRow& sums) {
    std::vector<std::string> names;
    for (const std::string& sum : sum_names(sums.first, sums.count))
      names.push_back(fmt::format("residual_{}", sum));
    return names;
  };
  for (const SumsOfRow& sums : all) {
    if (epilogue.residual) {
      code.load_written(residuals_of(sums), sums.residual, {sums.guard});
    }
  }
  for (const SumsOfRow& sums : all) {
    const std::vector<std::string> names = sum_names(sums.first, sums.count);
    for (std::int64_t i = 0; i < sums.count; ++i) {
      const std::string& sum = names[to_size(i)];
      const std::int64_t row = sums.row + (sums.has_rows ? i : 0);
      if (epilogue.scale) code.set(sum, product_of(sum, fmt::format("scale_of_row{}", row)));
      if (epilogue.bias) code.set(sum, sum_of(sum, fmt::format("bias_of_row{}", row)));
      if (epilogue.residual) code.set(sum, sum_of(sum, fmt::format("residual_{}", sum)));
      code.activate(sums.first + i);
    }
    code.store(names, sums.c, sums.guard);
  }
}

}  // namespace spjit
