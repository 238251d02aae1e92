#include "runtime/cuda/cuda_device_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/number_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_kib = 1024;

/// What an architecture does not share with the others; the rest are CudaDeviceInfo' defaults.
/// Sources: docs/design/cuda-devices.md; of sm_70 NVIDIA's Volta tuning guide, section "Occupancy"
/// (64 warps, 32 blocks and 64K registers an SM, 255 a thread) and "Unified Shared
/// Memory/L1/Texture Cache" (96 KB an SM, and a block may have all of it).
struct Architecture {
  std::int64_t arch;
  std::int64_t threads_per_sm;
  std::int64_t blocks_per_sm;
  std::int64_t shared_per_sm_kib;
  std::int64_t shared_per_block_optin_kib;
  std::int64_t reserved_shared_kib;
  std::int64_t shared_allocation_unit_bytes;
};

constexpr Architecture k_architectures[] = {
    {70, 2048, 32, 96, 96, 0, 256},     //
    {75, 1024, 16, 64, 64, 0, 256},     //
    {80, 2048, 32, 164, 163, 1, 128},   //
    {86, 1536, 16, 100, 99, 1, 128},    //
    {89, 1536, 24, 100, 99, 1, 128},    //
    {90, 2048, 32, 228, 227, 1, 128},   //
    {100, 2048, 32, 228, 227, 1, 128},  //
    {120, 1536, 24, 100, 99, 1, 128},
};

struct Card {
  std::int64_t arch;
  std::string_view name;
  std::string_view product;
  std::int64_t sms;
  std::int64_t l2_kib;
};

constexpr Card k_cards[] = {
    {70, "v100", "Tesla V100", 80,
     6144},  // whitepaper "NVIDIA Tesla V100 GPU Architecture", table 1
    {75, "t4", "Tesla T4", 40, 4096},
    {75, "rtx2080ti", "GeForce RTX 2080 Ti", 68, 5632},
    {80, "a100-40", "A100 40 GB", 108, 40960},
    {80, "a100-80", "A100 80 GB", 108, 40960},
    {80, "a30", "A30", 56, 24576},
    {86, "rtx3090", "GeForce RTX 3090", 82, 6144},
    {86, "a10", "A10", 72, 6144},
    {86, "a40", "A40", 84, 6144},
    {89, "l4", "L4", 58, 49152},
    {89, "l40s", "L40S", 142, 98304},
    {89, "rtx4090", "GeForce RTX 4090", 128, 73728},
    {90, "h100", "H100 SXM", 132, 51200},
    {90, "h200", "H200 SXM", 132, 61440},
    {90, "h100-pcie", "H100 PCIe", 114, 51200},
    {100, "b200", "B200", 148, 129536},
    {120, "rtx5090", "GeForce RTX 5090", 170, 98304},
};

/// Architectures that CUDA has stopped compiling for, and the release that did. With an older one
/// spjit compiles for those that have a card above.
struct DroppedArch {
  std::int64_t arch;
  std::string_view cuda;
};

constexpr DroppedArch k_dropped_archs[] = {
    {20, "9.0"},  {21, "9.0"},  {30, "11.0"}, {32, "11.0"}, {35, "12.0"},
    {37, "12.0"}, {50, "13.0"}, {52, "13.0"}, {53, "13.0"}, {60, "13.0"},
    {61, "13.0"}, {62, "13.0"}, {70, "13.0"}, {72, "13.0"},
};

CudaDeviceInfo make_limits(const Architecture& architecture, const Card& card) {
  CudaDeviceInfo limits;
  limits.arch = architecture.arch;
  limits.card = card.name;
  limits.product = card.product;
  limits.sms = card.sms;
  limits.l2_bytes = card.l2_kib * k_kib;
  limits.threads_per_sm = architecture.threads_per_sm;
  limits.blocks_per_sm = architecture.blocks_per_sm;
  limits.shared_per_sm_bytes = architecture.shared_per_sm_kib * k_kib;
  limits.shared_per_block_optin_bytes = architecture.shared_per_block_optin_kib * k_kib;
  limits.reserved_shared_per_block_bytes = architecture.reserved_shared_kib * k_kib;
  limits.shared_allocation_unit_bytes = architecture.shared_allocation_unit_bytes;
  return limits;
}

std::string list_architectures() {
  std::vector<std::string> names;
  for (const Architecture& architecture : k_architectures) {
    names.push_back(fmt::format("sm_{}", architecture.arch));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string list_cards(std::int64_t arch) {
  std::vector<std::string_view> names;
  for (const Card& card : k_cards) {
    if (card.arch == arch) names.push_back(card.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The number of "sm_<number>"; nothing else may follow it.
std::optional<std::int64_t> parse_arch(std::string_view name) {
  constexpr std::string_view prefix = "sm_";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto arch = read_number<std::int64_t>(name);
  return arch.value_or(-1) < 0 ? std::nullopt : arch;
}

[[noreturn]] void unknown_arch(std::string_view target, std::string_view arch_name) {
  const std::int64_t arch = parse_arch(arch_name).value_or(-1);
  if (const std::string_view cuda = cuda_that_dropped(arch); !cuda.empty()) {
    throw NotSupported(fmt::format(
        "target {}: CUDA {} dropped sm_{}, and spjit compiles for sm_70, sm_75 and newer; expected "
        "one of {}",
        target, cuda, arch, list_architectures()));
  }
  throw InvalidArgument(fmt::format(
      "target \"{}\": architecture \"{}\" is unknown; expected one of {}, alone or with a card as "
      "in sm_90:h200",
      target, arch_name, list_architectures()));
}

[[noreturn]] void unknown_card(std::string_view target, std::int64_t arch, std::string_view name) {
  const auto* const other = std::ranges::find(k_cards, name, &Card::name);
  const std::string hint = other == std::end(k_cards)
                               ? std::string()
                               : fmt::format(" ({} is a card of sm_{})", name, other->arch);
  throw InvalidArgument(fmt::format("target \"{}\": sm_{} has no card \"{}\"{}; expected one of {}",
                                    target, arch, name, hint, list_cards(arch)));
}

}  // namespace

std::string_view cuda_that_dropped(std::int64_t arch) noexcept {
  const auto* const dropped = std::ranges::find(k_dropped_archs, arch, &DroppedArch::arch);
  return dropped == std::end(k_dropped_archs) ? std::string_view() : dropped->cuda;
}

std::string CudaDeviceInfo::name() const { return fmt::format("sm_{}:{}", arch, card); }

std::vector<CudaDeviceInfo> known_cuda_cards() {
  std::vector<CudaDeviceInfo> cards;
  for (const Card& card : k_cards) {
    const auto* const architecture =
        std::ranges::find(k_architectures, card.arch, &Architecture::arch);
    cards.push_back(make_limits(*architecture, card));
  }
  return cards;
}

CudaDeviceInfo parse_cuda_target(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view arch_name = name.substr(0, colon);
  const std::optional<std::int64_t> arch = parse_arch(arch_name);
  const auto* const architecture =
      std::ranges::find(k_architectures, arch.value_or(-1), &Architecture::arch);
  if (architecture == std::end(k_architectures)) unknown_arch(name, arch_name);

  const bool named = colon != std::string_view::npos;
  const std::string_view card_name = named ? name.substr(colon + 1) : std::string_view();
  const auto* const card = std::ranges::find_if(k_cards, [&](const Card& candidate) {
    return candidate.arch == architecture->arch && (!named || candidate.name == card_name);
  });
  if (card == std::end(k_cards)) unknown_card(name, architecture->arch, card_name);
  return make_limits(*architecture, *card);
}

}  // namespace spjit
