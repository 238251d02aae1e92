#include "spjit/target.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/host_cpu.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "runtime/host/host_cards.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

HostIsa best_isa() {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (has_isa(host_cpu(), isa)) return isa;
  }
  return HostIsa::generic;
}

/// The card of "sm_90:h200" or "host-avx2:zen3"; empty where there is none.
std::string card_of(std::string_view name) {
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos ? std::string() : std::string(name.substr(colon + 1));
}

}  // namespace

Target::Target() : isa_(best_isa()) {}

Target::Target(int arch, std::string card)
    : isa_(HostIsa::generic), arch_(arch), card_(std::move(card)) {}

Target Target::parse(std::string_view name) {
  if (name == "host") return {};
  if (name == "native") {
    const LocalGpus local = find_local_gpus();
    return local.gpus.empty() ? Target()
                              : Target(static_cast<int>(local.gpus.front().limits.arch), "gpu0");
  }
  const std::string_view device = name.substr(0, name.find(':'));
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    Target target(isa);
    if (device != target.name()) continue;
    if (device.size() < name.size()) target.card_ = host_card(card_of(name), isa, name).name;
    return target;
  }
  if (name.starts_with("sm_")) {
    const std::string card = card_of(name);
    if (const std::optional<int> ordinal = gpu_ordinal(card)) {
      const CudaDeviceInfo limits = local_gpu_info(*ordinal);
      if (device != fmt::format("sm_{}", limits.arch)) {
        throw InvalidArgument(fmt::format("target \"{}\": GPU {} of this machine ({}) is sm_{}",
                                          name, *ordinal, limits.product, limits.arch));
      }
      return {static_cast<int>(limits.arch), card};
    }
    return {static_cast<int>(parse_cuda_target(name).arch), card};
  }
  throw InvalidArgument(
      fmt::format("target \"{}\" is unknown; expected host, host-avx512, host-avx2, host-generic, "
                  "native, a CPU such as host-avx512:zen4, or a GPU such as sm_90 or sm_90:h200",
                  name));
}

std::string Target::name() const {
  return card_.empty() ? code() : fmt::format("{}:{}", code(), card_);
}

std::string Target::code() const {
  return arch_ == 0 ? "host-" + to_string(isa_) : fmt::format("sm_{}", arch_);
}

bool Target::runs_here() const {
  if (arch_ != 0) {
    for (const LocalGpu& gpu : find_local_gpus().gpus) {
      if (runs_code_of(gpu.limits.arch, arch_)) return true;
    }
    return false;
  }
  return has_isa(host_cpu(), isa_);
}

}  // namespace spjit
