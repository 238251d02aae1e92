#include "tools/report/cuda_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/error.hpp"
#include "tools/report/table.hpp"

namespace spjit::cli {
namespace {

CudaTargetReport examine(std::int64_t arch, const FoundCudaLibraries& libraries) {
  CudaTargetReport report;
  report.name = fmt::format("sm_{}", arch);
  try {
    const CudaToolchain toolchain = load_cuda_toolchain(
        {.arch = static_cast<int>(arch), .nvrtc = true, .nvjitlink = true}, libraries);
    report.compiles = true;
    report.reason = fmt::format("NVRTC {}, nvJitLink {}", to_string(toolchain.nvrtc->version()),
                                to_string(toolchain.nvjitlink->version()));
  } catch (const Error& error) {
    report.reason = error.what();
  }
  return report;
}

std::string memory_text(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (std::int64_t{1} << 30));
}

std::string library_table(const CudaReport& report, const Terminal& terminal) {
  if (report.libraries.libraries.empty()) {
    return "no NVRTC or nvJitLink: run scripts/build/setup_cuda.sh, install a CUDA toolkit, or set "
           "SPJIT_CUDA_PATH\n";
  }
  using enum Column::Align;
  Table table({{"library", left}, {"version"}, {"found by", left}, {"path", left}});
  for (const FoundCudaLibrary& library : report.libraries.libraries) {
    table.add({to_string(library.kind), to_string(library.version), library.origin,
               library.path.string()});
  }
  return table.text(terminal);
}

std::string gpu_table(const CudaReport& report, const Terminal& terminal) {
  if (report.local.gpus.empty()) return "no GPU: " + one_line(report.local.problem) + "\n";
  using enum Column::Align;
  Table table({{"GPU"}, {"name", left}, {"target", left}, {"SMs"}, {"L2 KiB"}, {"memory"}});
  for (const LocalGpu& gpu : report.local.gpus) {
    table.add({std::to_string(gpu.ordinal), gpu.limits.product, gpu.limits.name(),
               std::to_string(gpu.limits.sms), std::to_string(gpu.limits.l2_bytes >> 10),
               memory_text(gpu.memory_bytes)});
  }
  return one_line(report.local.driver) + "\n" + table.text(terminal);
}

}  // namespace

CudaReport examine_cuda() {
  CudaReport report;
  report.libraries = found_cuda_libraries();
  for (const CudaDeviceInfo& card : known_cuda_cards()) {
    const std::string name = fmt::format("sm_{}", card.arch);
    if (report.targets.empty() || report.targets.back().name != name) {
      report.targets.push_back(examine(card.arch, report.libraries));
    }
    report.targets.back().cards.push_back(card.card);
  }
  report.local = find_local_gpus();
  return report;
}

std::string cuda_text(const CudaReport& report, const Terminal& terminal) {
  using enum Column::Align;
  Table targets({{"GPU target", left}, {"cards", left}, {"compiling", left}});
  for (const CudaTargetReport& target : report.targets) {
    targets.add(
        {target.name, fmt::format("{}", fmt::join(target.cards, ", ")),
         target.compiles ? "available: " + target.reason : "not available: " + target.reason});
  }
  std::string rejected;
  for (const std::string& line : report.libraries.rejected)
    rejected += "not used: " + one_line(line) + "\n";
  return targets.text(terminal) + "\n" + library_table(report, terminal) + rejected + "\n" +
         gpu_table(report, terminal);
}

Json describe(const CudaReport& report) {
  Json targets = Json::array();
  for (const CudaTargetReport& target : report.targets) {
    targets.push_back({{"target", target.name},
                       {"cards", target.cards},
                       {"compiles", target.compiles},
                       {"reason", target.reason}});
  }
  Json libraries = Json::array();
  for (const FoundCudaLibrary& library : report.libraries.libraries) {
    libraries.push_back({{"library", to_string(library.kind)},
                         {"version", to_string(library.version)},
                         {"found_by", library.origin},
                         {"path", library.path.string()}});
  }
  Json gpus = Json::array();
  for (const LocalGpu& gpu : report.local.gpus) {
    gpus.push_back({{"ordinal", gpu.ordinal},
                    {"name", gpu.limits.product},
                    {"target", gpu.limits.name()},
                    {"arch", gpu.limits.arch},
                    {"sms", gpu.limits.sms},
                    {"l2_bytes", gpu.limits.l2_bytes},
                    {"memory_bytes", gpu.memory_bytes}});
  }
  return {{"targets", std::move(targets)},
          {"libraries", std::move(libraries)},
          {"rejected", report.libraries.rejected},
          {"driver", report.local.driver},
          {"gpus", std::move(gpus)},
          {"problem", report.local.problem}};
}

}  // namespace spjit::cli
