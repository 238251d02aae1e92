#include "runtime/host/host_cards.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t kib(std::int64_t number) { return number << 10; }
constexpr std::int64_t mib(std::int64_t number) { return number << 20; }

constexpr HostCard k_host_cards[] = {
    {"zen3", "AMD Zen 3", HostIsa::avx2, kib(32), kib(32), kib(512), mib(32), false, 0},
    // It runs a 512-bit FMA over two cycles of its 256-bit units.
    {"zen4", "AMD Zen 4", HostIsa::avx512, kib(32), kib(32), mib(1), mib(32), false, 1},
    {"zen5", "AMD Zen 5", HostIsa::avx512, kib(32), kib(48), mib(1), mib(32), false, 2},
    {"cascadelake", "Intel Xeon (Cascade Lake)", HostIsa::avx512, kib(32), kib(32), mib(1),
     kib(36608), true, 2},
    {"icelake", "Intel Xeon (Ice Lake)", HostIsa::avx512, kib(32), kib(48), kib(1280), mib(48),
     true, 2},
    {"sapphire-rapids", "Intel Xeon (Sapphire Rapids)", HostIsa::avx512, kib(32), kib(48), mib(2),
     mib(105), true, 2},
    {"emerald-rapids", "Intel Xeon (Emerald Rapids)", HostIsa::avx512, kib(32), kib(48), mib(2),
     mib(260), true, 2},
};

/// Of each size the smallest.
HostCard any_card(HostIsa isa) {
  HostCard any{k_any_card, "any x86-64 CPU", isa, kib(32), kib(32), kib(512), mib(32), false, 2};
  if (isa == HostIsa::avx512) {
    any.product = "any CPU with AVX-512";
    any.l2_bytes = mib(1);
  }
  if (isa == HostIsa::avx2) any.product = "any CPU with AVX2";
  return any;
}

/// Models of a vendor's family that are of a card. AMD: its revision guides and Programming
/// References (PPR) of families 19h and 1Ah; Intel: Software Developer's Manual, volume 4, table
/// 2-1. Mobile parts of Zen 5, which halve the units of AVX-512, are not among them.
struct Models {
  std::string_view vendor;
  int family;
  int first;
  int last;
  std::string_view card;
};

constexpr Models k_models[] = {
    {"AuthenticAMD", 0x19, 0x00, 0x0F, "zen3"},
    {"AuthenticAMD", 0x19, 0x20, 0x5F, "zen3"},
    {"AuthenticAMD", 0x19, 0x10, 0x1F, "zen4"},
    {"AuthenticAMD", 0x19, 0x60, 0x7F, "zen4"},
    {"AuthenticAMD", 0x19, 0xA0, 0xAF, "zen4"},
    {"AuthenticAMD", 0x1A, 0x00, 0x1F, "zen5"},
    {"AuthenticAMD", 0x1A, 0x40, 0x4F, "zen5"},
    {"GenuineIntel", 6, 0x55, 0x55, "cascadelake"},  // Skylake-SP, too, whose caches are the same
    {"GenuineIntel", 6, 0x6A, 0x6A, "icelake"},
    {"GenuineIntel", 6, 0x6C, 0x6C, "icelake"},
    {"GenuineIntel", 6, 0x8F, 0x8F, "sapphire-rapids"},
    {"GenuineIntel", 6, 0xCF, 0xCF, "emerald-rapids"},
};

}  // namespace

std::vector<HostCard> host_cards(HostIsa isa) {
  std::vector<HostCard> cards;
  std::ranges::copy_if(k_host_cards, std::back_inserter(cards),
                       [&](const HostCard& card) { return card.has(isa); });
  cards.push_back(any_card(isa));
  return cards;
}

HostCard host_card(std::string_view name, HostIsa isa, std::string_view target) {
  std::vector<std::string_view> known;
  for (const HostCard& card : host_cards(isa)) {
    if (card.name == name) return card;
    known.push_back(card.name);
  }
  throw InvalidArgument(
      fmt::format("target \"{}\": there is no CPU \"{}\" with {}; expected one of {}", target, name,
                  to_string(isa), fmt::join(known, ", ")));
}

bool has_far_l3(const HostCpu& cpu) noexcept {
  constexpr std::int64_t k_near_bytes = mib(32);
  return cpu.vendor == "GenuineIntel" && cpu.l3_bytes > k_near_bytes;
}

std::optional<HostCard> card_of_cpu(const HostCpu& cpu) noexcept {
  const std::optional<HostCard> kind = kind_of_cpu(cpu);
  if (!kind) return std::nullopt;
  const bool has_its_caches =
      cpu.l1i_bytes == kind->l1i_bytes && cpu.l1d_bytes == kind->l1d_bytes &&
      cpu.l2_bytes == kind->l2_bytes && has_far_l3(cpu) == kind->l3_is_far &&
      cpu.l3_bytes >= kind->l3_bytes / 2 && cpu.l3_bytes <= kind->l3_bytes * 2;
  return has_its_caches ? kind : std::nullopt;
}

std::optional<HostCard> kind_of_cpu(const HostCpu& cpu) noexcept {
  for (const Models& models : k_models) {
    if (models.vendor != cpu.vendor || models.family != cpu.family) continue;
    if (cpu.model < models.first || cpu.model > models.last) continue;
    return *std::ranges::find(k_host_cards, models.card, &HostCard::name);
  }
  return std::nullopt;
}

}  // namespace spjit
