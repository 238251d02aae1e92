#include "runtime/host/host_device_info.hpp"

#include <fmt/format.h>

#include <optional>

#include "runtime/host/host_cards.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

HostDeviceInfo device_of(HostIsa isa) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.lanes = lanes_of(isa);
  limits.registers = registers_of(isa);
  return limits;
}

std::int64_t fmas_of(HostIsa isa, const HostCard& card) {
  constexpr std::int64_t k_usual = 2;
  return isa == HostIsa::avx512 && card.avx512_fmas > 0 ? card.avx512_fmas : k_usual;
}

HostDeviceInfo device_of(HostIsa isa, const HostCard& card) {
  HostDeviceInfo limits = device_of(isa);
  limits.name = card.product;
  limits.card = card.name;
  limits.l1i_bytes = card.l1i_bytes;
  limits.l1d_bytes = card.l1d_bytes;
  limits.l2_bytes = card.l2_bytes;
  limits.l3_bytes = card.l3_bytes;
  limits.l3_is_far = card.l3_is_far && isa != HostIsa::avx2;
  limits.fmas_per_cycle = fmas_of(isa, card);
  return limits;
}

/// Of a CPU that no card is of: what it says of its caches.
HostCard own_caches(const HostCpu& cpu, HostIsa isa) {
  const std::optional<HostCard> kind = kind_of_cpu(cpu);
  return {.name = "",
          .product = "",
          .isa = isa,
          .l1i_bytes = cpu.l1i_bytes,
          .l1d_bytes = cpu.l1d_bytes,
          .l2_bytes = cpu.l2_bytes,
          .l3_bytes = cpu.l3_bytes,
          .l3_is_far = has_far_l3(cpu),
          .avx512_fmas = kind ? kind->avx512_fmas : 0};
}

}  // namespace

HostDeviceInfo host_device_info(HostIsa isa) { return host_device_info(isa, host_cpu()); }

HostDeviceInfo host_device_info(const Target& target) {
  if (target.card().empty()) return host_device_info(target.isa());
  return device_of(target.isa(), host_card(target.card(), target.isa(), target.name()));
}

HostDeviceInfo host_device_info(HostIsa isa, const HostCpu& cpu) {
  if (!has_isa(cpu, isa)) return device_of(isa, host_card(k_any_card, isa, Target(isa).name()));
  const std::optional<HostCard> card = card_of_cpu(cpu);
  HostDeviceInfo limits = device_of(isa, card && card->has(isa) ? *card : own_caches(cpu, isa));
  limits.name = cpu.model_name;
  limits.cpus = cpu.logical_cpus;
  return limits;
}

std::string to_string(HostIsa isa) {
  switch (isa) {
    case HostIsa::avx512:
      return "avx512";
    case HostIsa::avx2:
      return "avx2";
    case HostIsa::generic:
      return "generic";
  }
  return "?";
}

bool has_isa(const HostCpu& cpu, HostIsa isa) noexcept {
  switch (isa) {
    case HostIsa::avx512:
      return cpu.avx512;
    case HostIsa::avx2:
      return cpu.avx2_fma;
    case HostIsa::generic:
#if defined(__x86_64__)
      return true;
#else
      return false;
#endif
  }
  return false;
}

std::string_view needed_for(HostIsa isa) noexcept {
  switch (isa) {
    case HostIsa::avx512:
      return "AVX-512";
    case HostIsa::avx2:
      return "AVX2";
    case HostIsa::generic:
      break;
  }
  return "x86-64";
}

Refusal why_not_timed_on(const HostCpu& cpu, const Target& target) {
  if (!has_isa(cpu, target.isa())) {
    return Refusal(fmt::format("needs {}", needed_for(target.isa())));
  }
  if (target.card().empty()) return Refusal::none();
  if (target.card() == k_any_card) return Refusal("it is for no CPU in particular");
  const std::optional<HostCard> card = card_of_cpu(cpu);
  if (card && card->name == target.card()) return Refusal::none();
  return Refusal(fmt::format("this CPU ({}) is no {}", cpu.model_name, target.card()));
}

void require_isa(const HostCpu& cpu, HostIsa isa) {
  if (has_isa(cpu, isa)) return;
  throw NotSupported(fmt::format(
      "the kernel is for {}, which this CPU ({}) cannot run; compile it with --target host",
      Target(isa).name(), cpu.model_name));
}

}  // namespace spjit
