// spjit devices: what kernels can be compiled for, and what this CPU reaches.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_cpu.hpp"
#include "runtime/host/host_cards.hpp"
#include "spjit/error.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/cuda_report.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/measure.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {
namespace {

constexpr std::array<std::string_view, 3> k_targets = {"host-avx512", "host-avx2", "host-generic"};

struct DevicesCommandOptions {
  bool measure = true;
  bool json = false;
};

struct TargetReport {
  std::string name;
  bool available = false;          ///< runs here
  std::string reason;              ///< why it is not available
  std::vector<std::string> cards;  ///< that kernels can be compiled for
};

std::string_view missing_here(HostIsa isa) {
  switch (isa) {
    case HostIsa::avx512:
      return "this CPU lacks AVX-512 F, DQ, BW or VL";
    case HostIsa::avx2:
      return "this CPU lacks AVX2 or FMA";
    case HostIsa::generic:
      break;
  }
  return "this is no x86-64 CPU";
}

TargetReport examine(std::string_view name) {
  const Target target = Target::parse(name);
  TargetReport report{target.name(), target.runs_here(), "", {}};
  if (!report.available) report.reason = missing_here(target.isa());
  for (const HostCard& card : host_cards(target.isa())) report.cards.emplace_back(card.name);
  return report;
}

/// The name of this CPU's card; empty: it is not listed.
std::string card_name(const HostCpu& cpu) {
  const std::optional<HostCard> card = card_of_cpu(cpu);
  return card ? std::string(card->name) : std::string();
}

Json describe(const HostCpu& cpu) {
  return {{"model", cpu.model_name},
          {"vendor", cpu.vendor},
          {"family", cpu.family},
          {"model_number", cpu.model},
          {"stepping", cpu.stepping},
          {"card", card_name(cpu)},
          {"isa", to_string(Target().isa())},
          {"avx2_fma", cpu.avx2_fma},
          {"avx512", cpu.avx512},
          {"avx512_bf16", cpu.avx512_bf16},
          {"avx512_vbmi", cpu.avx512_vbmi},
          {"avx512_vbmi2", cpu.avx512_vbmi2},
          {"avx512_vnni", cpu.avx512_vnni},
          {"avx_vnni", cpu.avx_vnni},
          {"l1i_bytes", cpu.l1i_bytes},
          {"l1d_bytes", cpu.l1d_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes},
          {"cpus", cpu.logical_cpus}};
}

Json describe(const TargetReport& target) {
  Json json = {{"target", target.name},
               {"available", target.available},
               {"reason", nullptr},
               {"cards", target.cards}};
  if (!target.available) json["reason"] = target.reason;
  return json;
}

std::string size_text(std::int64_t bytes) {
  if (bytes == 0) return "none";
  return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20)
                                : fmt::format("{} KiB", bytes >> 10);
}

/// Those that decide which loop a kernel runs, beside the target.
std::string extensions_text(const HostCpu& cpu) {
  std::vector<std::string_view> names;
  if (cpu.avx512_vbmi) names.emplace_back("AVX-512 VBMI");
  if (cpu.avx512_vbmi2) names.emplace_back("AVX-512 VBMI2");
  if (cpu.avx512_vnni) names.emplace_back("AVX-512 VNNI");
  if (cpu.avx_vnni) names.emplace_back("AVX-VNNI");
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string host_text(const HostCpu& cpu, double peak_gflops) {
  std::string text = fmt::format(
      "host: {}\n  best target   {}\n  for integers  {}\n  card          {}\n"
      "  CPUs          {}\n  caches        L1i {}, L1d {}, L2 {}, L3 {}\n",
      cpu.model_name, Target().name(), extensions_text(cpu),
      card_name(cpu).empty() ? "not listed: choices are made for its own caches" : card_name(cpu),
      cpu.logical_cpus, size_text(cpu.l1i_bytes), size_text(cpu.l1d_bytes), size_text(cpu.l2_bytes),
      size_text(cpu.l3_bytes));
  if (peak_gflops > 0) {
    text += fmt::format("  FMA peak      {:.1f} GFLOP/s a core (fp32, measured)\n", peak_gflops);
  }
  return text;
}

ExitCode report(const DevicesCommandOptions& options) {
  const HostCpu cpu = detect_host_cpu();
  const double peak = options.measure ? measure_peak_gflops(Target()) : 0;
  std::vector<TargetReport> targets;
  targets.reserve(k_targets.size());
  for (const std::string_view name : k_targets) targets.push_back(examine(name));
  const CudaReport cuda = examine_cuda();

  if (options.json) {
    Json host = describe(cpu);
    host["fma_peak_gflops_per_core"] = options.measure ? Json(peak) : Json(nullptr);
    Json list = Json::array();
    for (const TargetReport& target : targets) list.push_back(describe(target));
    print_json({{"host", std::move(host)}, {"targets", std::move(list)}, {"cuda", describe(cuda)}});
    return ExitCode::ok;
  }
  using enum Column::Align;
  Table table({{"target", left}, {"cards", left}, {"state", left}});
  for (const TargetReport& target : targets) {
    table.add({target.name, fmt::format("{}", fmt::join(target.cards, ", ")),
               target.available ? "runs here" : "compiles, does not run here: " + target.reason});
  }
  print(host_text(cpu, peak) + "\n" + table.text(inspect_stdout()) + "\n" +
        cuda_text(cuda, inspect_stdout()));
  return ExitCode::ok;
}

}  // namespace

Subcommand add_devices(CLI::App& app) {
  const auto options = std::make_shared<DevicesCommandOptions>();
  CLI::App* command = app.add_subcommand("devices");
  set_manual(*command, "devices");
  command->add_flag_function(
      "--no-measure", [options](std::int64_t) { options->measure = false; },
      "Do not measure the FMA rate, which takes a moment.");
  add_json(*command, options->json);
  return {command, [options] { return report(*options); }};
}

}  // namespace spjit::cli
