#include "bench/compile/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "spjit/generate.hpp"

namespace spjit::bench {
namespace {

constexpr ScalingSize k_sizes[] = {{128, 80, 0.9},    {256, 128, 0.9},  {256, 400, 0.9},
                                   {512, 512, 0.9},   {1024, 512, 0.9}, {1024, 1280, 0.9},
                                   {2048, 1280, 0.9}, {3072, 768, 0.7}, {4096, 1024, 0.7616}};

}  // namespace

CsrMatrix ScalingSize::make() const {
  GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  return generate_matrix(options);
}

std::string ScalingSize::shape() const { return fmt::format("{}x{}", rows, cols); }

std::vector<ScalingSize> scaling_sizes(std::span<const std::int64_t> thousands) {
  std::vector<ScalingSize> sizes;
  for (const ScalingSize& size : k_sizes) {
    const double nonzeros = static_cast<double>(size.rows * size.cols) * (1 - size.sparsity);
    const auto named = [&](std::int64_t wanted) {
      return std::abs(nonzeros / 1000 - static_cast<double>(wanted)) < 0.6;
    };
    if (thousands.empty() || std::ranges::any_of(thousands, named)) sizes.push_back(size);
  }
  return sizes;
}

void ScalingOptions::add_to(CLI::App& app, const std::vector<std::string>& names) {
  app.add_option("--repeats", repeats, "of each measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit", limit_s, "seconds after which a compilation is stopped")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--sizes", sizes, "only these sizes, thousands of nonzeros (26,708)")
      ->delimiter(',');
  app.add_option("--methods", methods, fmt::format("only these: {}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--json", json, "write the results there");
}

bool ScalingOptions::wants(const std::string& method) const {
  return methods.empty() || std::ranges::find(methods, method) != methods.end();
}

std::vector<ChildRun> ScalingRow::good() const {
  std::vector<ChildRun> result;
  std::ranges::copy_if(runs, std::back_inserter(result),
                       [](const ChildRun& run) { return run.failure.empty(); });
  std::ranges::sort(result, {}, [](const ChildRun& run) { return run.report.seconds; });
  return result;
}

std::string scaling_header() {
  return fmt::format("{:>9} {:>10}  {:<16} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9}\n", "nonzeros",
                     "shape", "method", "median s", "least", "most", "emit s", "CPU s", "peak MiB",
                     "code KiB");
}

std::string scaling_line(const ScalingRow& row) {
  const std::string head =
      fmt::format("{:>9} {:>10}  {:<16} ", row.nonzeros, row.shape, row.method);
  const std::vector<ChildRun> good = row.good();
  if (good.empty()) return head + row.runs.back().failure + "\n";
  const ChildRun& median = good[(good.size() - 1) / 2];
  return head + fmt::format("{:>9.4g} {:>9.4g} {:>9.4g} {:>8.3f} {:>8.2f} {:>9} {:>9}\n",
                            median.report.seconds, good.front().report.seconds,
                            good.back().report.seconds, median.report.emit_seconds,
                            median.cpu_seconds, median.peak_rss_bytes >> 20,
                            median.report.code_bytes >> 10);
}

nlohmann::json to_json(const ScalingRow& row) {
  nlohmann::json json = {{"nonzeros", row.nonzeros},
                         {"shape", row.shape},
                         {"method", row.method},
                         {"runs", nlohmann::json::array()}};
  if (!row.tile.empty()) json["tile"] = row.tile;
  for (const ChildRun& run : row.runs) {
    if (!run.failure.empty()) {
      json["runs"].push_back({{"failure", run.failure}});
      continue;
    }
    nlohmann::json& good = json["runs"].emplace_back();
    good = {{"seconds", run.report.seconds},
            {"cpu_seconds", run.cpu_seconds},
            {"peak_rss_bytes", run.peak_rss_bytes},
            {"code_bytes", run.report.code_bytes}};
    if (run.report.emit_seconds > 0) good["emit_seconds"] = run.report.emit_seconds;
  }
  return json;
}

}  // namespace spjit::bench
