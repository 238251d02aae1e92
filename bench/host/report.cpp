#include "bench/host/report.hpp"

#include <fmt/format.h>

#include <cctype>

#include "spjit/version.hpp"

namespace spjit::bench {
namespace {

// Names are paths; their end tells the layers apart.
std::string shortened(const std::string& name, std::size_t width) {
  if (name.size() <= width) return name;
  return "..." + name.substr(name.size() - (width - 3));
}

nlohmann::json timing_json(const CaseResult& result, const std::string& library,
                           const TimingResult& timing) {
  return {{"library", library},
          {"median_us", timing.median_us},
          {"min_us", timing.min_us},
          {"noise", timing.noise},
          {"samples", timing.samples},
          {"gflops", result.gflops(timing)},
          {"peak_share", result.peak_share(timing)}};
}

nlohmann::json case_json(const CaseResult& result) {
  nlohmann::json timings = {timing_json(result, "spjit", result.kernel),
                            timing_json(result, "csr", result.csr)};
  if (result.dense) timings.push_back(timing_json(result, "openblas", *result.dense));
  return {{"matrix", result.matrix},
          {"source", result.source},
          {"rows", result.rows},
          {"cols", result.cols},
          {"nnz", result.nnz},
          {"sparsity", result.sparsity()},
          {"n", result.n},
          {"threads", result.threads},
          {"kind", result.kind},
          {"tile", result.tile},
          {"code_bytes", result.code_bytes},
          {"peak_gflops", result.peak_gflops},
          {"cold_compile_ms", result.cold_compile_ms},
          {"encode_ms", result.encode_ms},
          {"warm_hit_ms", result.warm_hit_ms},
          {"max_error", result.error.max_error},
          {"max_bound_ratio", result.error.max_bound_ratio},
          {"timings", std::move(timings)}};
}

}  // namespace

std::string table_header() {
  return fmt::format(
      "{:<40} {:>11} {:>5} {:>7} {:>4} {:>2} {:>9} {:>5} {:>7} {:>6} {:>7} {:>6} {:>6}"
      "  {:>8} {:>7}  {}",
      "matrix", "shape", "%", "nnz", "n", "t", "us", "+-%", "GFLOP/s", "% peak", "peak", "x csr",
      "x blas", "cold ms", "hit ms", "tile");
}

std::string table_row(const CaseResult& result) {
  const auto times = [&](const TimingResult& peer) {
    return fmt::format("{:.2f}", peer.median_us / result.kernel.median_us);
  };
  return fmt::format(
      "{:<40} {:>11} {:>5.1f} {:>7} {:>4} {:>2} {:>9.2f} {:>5.1f} {:>7.1f} {:>6.1f} {:>7.1f} {:>6} "
      "{:>6}  {:>8.1f} {:>7.2f}  {}",
      shortened(result.matrix, 40), fmt::format("{}x{}", result.rows, result.cols),
      100 * result.sparsity(), result.nnz, result.n, result.threads, result.kernel.median_us,
      100 * result.kernel.noise, result.gflops(result.kernel),
      100 * result.peak_share(result.kernel), result.peak_gflops, times(result.csr),
      result.dense ? times(*result.dense) : "-", result.cold_compile_ms, result.warm_hit_ms,
      result.tile.empty() ? result.kind : result.tile);
}

std::string goal_row(const GoalResult& goal) {
  return fmt::format("{:<8} {:>8.2f} {:<10} {:<62} {}", to_string(goal.state), goal.measured,
                     goal.unit, goal.goal, shortened(goal.where, 60));
}

nlohmann::json to_json(const GoalResult& goal) {
  return {{"goal", goal.goal}, {"measured", goal.measured}, {"wanted", goal.wanted},
          {"unit", goal.unit}, {"where", goal.where},       {"state", to_string(goal.state)}};
}

nlohmann::json to_json(const RunDescription& run, std::span<const CaseResult> cases,
                       std::span<const GoalResult> goals) {
  nlohmann::json document = {
      {"schema", "spjit-host-bench-1"},
      {"device",
       {{"cpu", run.cpu},
        {"isa", run.isa},
        {"cpus", run.cpus},
        {"l1d_bytes", run.l1d_bytes},
        {"l2_bytes", run.l2_bytes},
        {"l3_bytes", run.l3_bytes},
        {"l2_gbytes_per_s", run.l2_gbytes_per_s},
        {"load_average", run.load_average}}},
      {"libraries", {{"spjit", SPJIT_VERSION}, {"csr", SPJIT_VERSION}, {"openblas", run.openblas}}},
      {"cases", nlohmann::json::array()},
      {"goals", nlohmann::json::array()}};
  for (const CaseResult& result : cases) document["cases"].push_back(case_json(result));
  for (const GoalResult& goal : goals) document["goals"].push_back(to_json(goal));
  return document;
}

std::string file_name_of(const std::string& cpu) {
  std::string name;
  for (const char character : cpu) {
    const auto byte = static_cast<unsigned char>(character);
    if (std::isalnum(byte) != 0) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "unknown" : name;
}

}  // namespace spjit::bench
