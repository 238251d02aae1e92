#include "bench/convolution/case.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/convolution/conv_peer.hpp"
#include "plan/convolution.hpp"

namespace spjit::bench {
namespace {

nlohmann::json to_json(const ConvTiming& timing) {
  const auto time = [&](double value) {
    return timing.failed.empty() ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  return {{"library", timing.library},
          {"median_us", time(timing.time.median_us)},
          {"min_us", time(timing.time.min_us)},
          {"noise", time(timing.time.noise)},
          {"samples", timing.time.samples},
          {"detail", timing.detail},
          {"failed", timing.failed}};
}

ConvTiming timing_of(const nlohmann::json& json) {
  ConvTiming timing;
  timing.library = json.at("library").get<std::string>();
  timing.detail = json.at("detail").get<std::string>();
  timing.failed = json.at("failed").get<std::string>();
  timing.time.samples = json.at("samples").get<int>();
  if (!timing.failed.empty()) return timing;
  timing.time.median_us = json.at("median_us").get<double>();
  timing.time.min_us = json.at("min_us").get<double>();
  timing.time.noise = json.at("noise").get<double>();
  return timing;
}

}  // namespace

std::string ConvCase::kernel() const {
  std::string name = fmt::format("{}x{}", shape.kernel_height, shape.kernel_width);
  if (shape.groups > 1 && shape.groups == shape.channels) return "depthwise " + name;
  if (shape.groups > 1) return "grouped " + name;
  const bool has_one_tap = shape.kernel_height * shape.kernel_width == 1;
  return has_one_tap && !is_pointwise(shape) ? name + " strided" : name;
}

double ConvCase::dense_gflop() const noexcept {
  const auto taps = static_cast<double>(shape.kernel_height * shape.kernel_width);
  const auto pixels = static_cast<double>(shape.output_height() * shape.output_width() * batch);
  const auto channels = static_cast<double>(shape.channels) / static_cast<double>(shape.groups);
  return 2e-9 * static_cast<double>(filters) * channels * taps * pixels;
}

const ConvTiming* ConvCase::find(const std::string& library) const {
  const auto found = std::ranges::find(timings, library, &ConvTiming::library);
  return found == timings.end() || !found->failed.empty() ? nullptr : &*found;
}

const ConvTiming* ConvCase::dense() const {
  const ConvTiming* fastest = nullptr;
  for (const ConvTiming& timing : timings) {
    if (!timing.library.starts_with(k_dense_convolution) || !timing.failed.empty()) continue;
    const bool faster = fastest == nullptr || timing.time.median_us < fastest->time.median_us;
    if (faster) fastest = &timing;
  }
  return fastest;
}

nlohmann::json to_json(const ConvCase& result) {
  nlohmann::json json = {{"network", result.network},
                         {"sparsity", result.sparsity},
                         {"layer", result.layer},
                         {"origin", result.origin},
                         {"layers", result.layers},
                         {"filters", result.filters},
                         {"shape", spjit::to_json(result.shape)},
                         {"kernel", result.kernel()},
                         {"nnz", result.nnz},
                         {"dense_gflop", result.dense_gflop()},
                         {"batch", result.batch},
                         {"threads", result.threads},
                         {"caches", result.hot ? "hot" : "cold"},
                         {"timings", nlohmann::json::array()}};
  for (const ConvTiming& timing : result.timings) json["timings"].push_back(to_json(timing));
  return json;
}

ConvCase conv_case_of(const nlohmann::json& record) {
  ConvCase result;
  result.network = record.at("network").get<std::string>();
  result.sparsity = record.at("sparsity").get<int>();
  result.layer = record.at("layer").get<std::string>();
  result.origin = record.at("origin").get<std::string>();
  result.layers = record.at("layers").get<std::int64_t>();
  result.filters = record.at("filters").get<std::int64_t>();
  result.shape = read_convolution(record.at("shape"));
  result.nnz = record.at("nnz").get<std::int64_t>();
  result.batch = record.at("batch").get<std::int64_t>();
  result.threads = record.at("threads").get<int>();
  result.hot = record.at("caches") == "hot";
  for (const nlohmann::json& timing : record.at("timings")) {
    result.timings.push_back(timing_of(timing));
  }
  return result;
}

}  // namespace spjit::bench
