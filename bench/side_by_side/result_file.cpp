#include "bench/side_by_side/result_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/host/read_bandwidth.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "spjit/error.hpp"
#include "tools/peers/machine_peak.hpp"

namespace spjit::side_by_side {
namespace {

using Json = nlohmann::json;

constexpr const char* k_schema = "spjit-side-by-side-1";
constexpr double k_roofline_ms = 60;  // each of its figures
constexpr std::int64_t k_least_dram_bytes = std::int64_t{256} << 20;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json timing_json(const CaseResult& result, const PeerTiming& timing) {
  Json json = {{"library", timing.library},
               {"median_us", nullptr},
               {"min_us", nullptr},
               {"noise", nullptr},
               {"samples", timing.warm.samples},
               {"gflops", nullptr},
               {"cold_us", nullptr},
               {"prepare_ms", timing.prepare_ms},
               {"prepare_kind", timing.prepare_kind},
               {"detail", timing.detail},
               {"failed", text_or_null(timing.failed)}};
  if (timing.warm.samples > 0) {
    json["median_us"] = timing.warm.median_us;
    json["min_us"] = timing.warm.min_us;
    json["noise"] = timing.warm.noise;
    json["gflops"] = result.gflops(timing);
  }
  if (timing.cold_us) json["cold_us"] = *timing.cold_us;
  return json;
}

double bandwidth(HostIsa isa, std::int64_t bytes) {
  return bench::measure_read_bandwidth(isa, bytes, k_roofline_ms);
}

}  // namespace

nlohmann::json measure_roofline(const HostCpu& cpu, HostIsa isa) {
  const bool has_l3 = cpu.l3_bytes > 0;
  return {{"fma_peak_gflops", measure_fma_peak_gflops(isa, k_roofline_ms)},
          {"l1_gbytes_per_s", bandwidth(isa, cpu.l1d_bytes / 2)},
          {"l2_gbytes_per_s", bandwidth(isa, cpu.l2_bytes / 2)},
          {"l3_gbytes_per_s", has_l3 ? Json(bandwidth(isa, cpu.l3_bytes / 2)) : Json()},
          {"dram_gbytes_per_s", bandwidth(isa, std::max(8 * cpu.l3_bytes, k_least_dram_bytes))}};
}

nlohmann::json host_device(const HostCpu& cpu, const Target& target, double load_average) {
  return {
      {"kind", "host"},           {"name", bench::cpu_name(cpu)}, {"isa", to_string(target.isa())},
      {"cpus", cpu.logical_cpus}, {"l1d_bytes", cpu.l1d_bytes},   {"l2_bytes", cpu.l2_bytes},
      {"l3_bytes", cpu.l3_bytes}, {"load_average", load_average}};
}

nlohmann::json cuda_device(const LocalGpu& device, double load_average, bool rehearsal) {
  return {{"kind", rehearsal ? "emulated" : "cuda"},
          {"name", device.limits.product},
          {"isa", fmt::format("sm_{}", device.limits.arch)},
          {"sms", device.limits.sms},
          {"l2_bytes", device.limits.l2_bytes},
          {"load_average", load_average}};
}

nlohmann::json new_document(const std::string& command, const nlohmann::json& device,
                            const std::vector<PeerInfo>& peers) {
  Json document = {{"schema", k_schema}, {"created", bench::utc_now()}, {"command", command},
                   {"device", device},   {"libraries", Json::array()},  {"cases", Json::array()}};
  for (const PeerInfo& info : peers) {
    document["libraries"].push_back({{"name", info.name},
                                     {"version", info.version},
                                     {"kind", info.kind},
                                     {"missing", text_or_null(info.missing)}});
  }
  return document;
}

nlohmann::json earlier_document(const std::filesystem::path& file, const nlohmann::json& document) {
  if (!std::filesystem::exists(file)) return document;
  Json earlier = bench::load_json(file, document.at("schema").get<std::string>());
  // Files of GPUs from before "caches" was written are hot.
  const auto caches = [](const Json& of) { return of.at("device").value("caches", "hot"); };
  const bool same = earlier.at("device").at("name") == document.at("device").at("name") &&
                    caches(earlier) == caches(document) &&
                    earlier.at("libraries") == document.at("libraries");
  if (same) return earlier;
  throw Error(
      fmt::format("{}: made on another machine, with other libraries, or hot where this is cold; "
                  "choose another --json, or the same --peers and --cold",
                  file.string()));
}

bool has_case(const nlohmann::json& document, const CaseName& name) {
  const Json& cases = document.at("cases");
  return std::any_of(cases.begin(), cases.end(), [&](const Json& other) {
    return other.at("set") == name.set && other.at("matrix") == name.matrix &&
           other.at("n") == name.n && other.at("threads") == name.threads;
  });
}

nlohmann::json to_json(const CaseResult& result) {
  Json json = {{"set", result.set},
               {"matrix", result.matrix},
               {"layer", result.layer},
               {"rows", result.rows},
               {"cols", result.cols},
               {"nnz", result.nnz},
               {"sparsity", result.sparsity()},
               {"n", result.n},
               {"threads", result.threads},
               {"peak_gflops", result.peak_gflops > 0 ? Json(result.peak_gflops) : Json()},
               {"traffic_bytes", result.traffic_bytes()},
               {"checked", result.checked},
               {"timings", Json::array()}};
  for (const PeerTiming& timing : result.timings) {
    json["timings"].push_back(timing_json(result, timing));
  }
  return json;
}

}  // namespace spjit::side_by_side
