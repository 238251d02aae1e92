/// @file
/// Constants of a GPU, measured: bench/README.md says which and how. scripts/gpu/gpu.sh runs it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu/cubin_folder.hpp"
#include "bench/gpu_constants/constants.hpp"
#include "bench/json_file.hpp"
#include "runtime/cuda/cuda_context.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;

struct Options {
  std::filesystem::path json;
  std::filesystem::path cubins;
  std::filesystem::path precompile;
  std::string target;
  int device = 0;
  bool rehearse = false;
};

int precompile(const Options& options) {
  if (options.target.empty()) {
    throw InvalidArgument("--precompile needs --target CARD, say sm_90:h100");
  }
  const auto folder = CubinFolder::to_fill(options.precompile, options.target);
  folder->require_compilers();
  const auto arch = static_cast<int>(folder->card().arch);
  const ConstantSizes sizes = constant_sizes(folder->card(), options.rehearse);
  static_cast<void>(micro_cubins(micro_programs(sizes.code_bytes, arch), arch, folder.get()));
  folder->finish(stored_step("constants", options.rehearse));
  fmt::print("constants: {}\n", to_string(folder->counts()));
  return 0;
}

int measure(const Options& options) {
  const CudaContext context(local_cuda_driver(), options.device);
  const CudaDeviceInfo device = context.device().limits;
  const bool is_emulated = device.product.starts_with("emulated");
  if (is_emulated && !options.rehearse) {
    throw NotSupported(device.product + ": has no times; expected a GPU, or --rehearse");
  }
  fmt::print("{} ({}, {} SMs)\n", device.product, device.name(), device.sms);
  std::shared_ptr<CubinFolder> folder;
  if (!options.cubins.empty()) folder = CubinFolder::for_device(options.cubins, device);
  const auto arch = static_cast<int>(device.arch);
  const ConstantSizes sizes = constant_sizes(device, options.rehearse);
  const auto cubins = micro_cubins(micro_programs(sizes.code_bytes, arch), arch, folder.get());
  const ConstantsResult result = measure_constants(context, cubins, sizes, options.rehearse);
  fmt::print("{}", constants_table(result));
  nlohmann::json document = {{"schema", "spjit-gpu-constants-1"},
                             {"spjit", SPJIT_VERSION},
                             {"arch", device.arch},
                             {"device",
                              {{"kind", options.rehearse ? "emulated" : "cuda"},
                               {"name", device.product},
                               {"isa", fmt::format("sm_{}", device.arch)},
                               {"sms", device.sms},
                               {"l2_bytes", device.l2_bytes}}}};
  document.update(to_json(result));
  if (!options.json.empty()) save_json(options.json, document);
  if (folder) fmt::print("{}\n", to_string(folder->counts()));
  return std::ranges::any_of(result.constants,
                             [](const Constant& one) { return !one.failure.empty(); })
             ? 1
             : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Constants of a GPU, measured by small kernels."};
  Options options;
  app.add_option("--json", options.json, "Write the result there");
  app.add_option("--device", options.device, "The GPU (default 0)")->check(CLI::NonNegativeNumber);
  CLI::Option* cubins =
      app.add_option("--cubins", options.cubins, "Load cubins from this folder, which was filled");
  app.add_option("--precompile", options.precompile,
                 "Compile the cubins into this folder, for --target; needs no GPU")
      ->excludes(cubins);
  app.add_option("--target", options.target, "Card to compile for: sm_90:h100");
  app.add_flag("--rehearse", options.rehearse,
               "On the emulated driver: every kernel runs once, no value is kept");
  CLI11_PARSE(app, argc, argv);
  try {
    return options.precompile.empty() ? measure(options) : precompile(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_constants_bench: {}\n", error.what());
    return 2;
  }
}
