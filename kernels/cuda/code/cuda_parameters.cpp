#include "kernels/cuda/code/cuda_parameters.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

const float* values_of(const Arguments& arguments, const float* own) {
  const PreparedValues::Stream* stream =
      arguments.values == nullptr ? nullptr : arguments.values->stream();
  return stream == nullptr ? own : dynamic_cast<const CudaValues&>(*stream).data();
}

}  // namespace

CudaParameters::CudaParameters(const Arguments& arguments, const float* values,
                               std::span<const std::uint64_t> added)
    : arguments_(arguments),
      n_(checked_cast<unsigned>(arguments.n, "n")),
      ldb_(checked_cast<unsigned>(arguments.b.ld, "ldb")),
      ldc_(checked_cast<unsigned>(arguments.c.ld, "ldc")),
      ldr_(checked_cast<unsigned>(arguments.residual.ld, "ldr")),
      values_(values_of(arguments, values)) {
  if (added.size() > k_most_added) {
    throw InvalidArgument("a kernel has more parameters than there is room for");
  }
  std::ranges::copy(added, added_.begin());
  const std::array<void*, 13> common = {&arguments_.b.data,
                                        &arguments_.c.data,
                                        &arguments_.scale,
                                        &arguments_.bias,
                                        &arguments_.residual.data,
                                        &n_,
                                        &ldb_,
                                        &ldc_,
                                        &ldr_,
                                        &arguments_.b.distance,
                                        &arguments_.c.distance,
                                        &arguments_.residual.distance,
                                        &values_};
  const auto rest = std::ranges::copy(common, places_.begin()).out;
  std::ranges::transform(added_, rest, [](std::uint64_t& word) { return &word; });
}

std::vector<CudaCode::Parameter> with_common_parameters(std::vector<CudaCode::Parameter> added) {
  std::vector<CudaCode::Parameter> all = {
      {"b", CodeType::floats},        {"c", CodeType::target},
      {"scale", CodeType::floats},    {"bias", CodeType::floats},
      {"residual", CodeType::floats}, {"n", CodeType::u32},
      {"ldb", CodeType::u32},         {"ldc", CodeType::u32},
      {"ldr", CodeType::u32},         {"b_distance", CodeType::s64},
      {"c_distance", CodeType::s64},  {"residual_distance", CodeType::s64},
      {"values", CodeType::floats}};
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

}  // namespace spjit
