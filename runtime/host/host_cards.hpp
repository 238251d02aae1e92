#pragma once

/// @file
/// CPUs as plain data, by the names that targets have. What choices look at is the same for every
/// CPU of a kind. So a kernel that one of them compiled is found by the next, and any machine can
/// compile for them. docs/design/host.md says where each number comes from.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/host_cpu.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// A kind of CPU.
struct HostCard {
  std::string_view name;     ///< "zen4", the part of a target's name after the colon
  std::string_view product;  ///< "AMD Zen 4"
  HostIsa isa;               ///< the best that it has
  std::int64_t l1i_bytes;
  std::int64_t l1d_bytes;
  std::int64_t l2_bytes;     ///< of a core
  std::int64_t l3_bytes;     ///< that a core reaches
  bool l3_is_far;            ///< as HostDeviceInfo::l3_is_far
  std::int64_t avx512_fmas;  ///< of 512 bits, started a cycle; 0: it has none

  /// Whether kernels of the instruction set run on it.
  [[nodiscard]] constexpr bool has(HostIsa wanted) const noexcept { return wanted >= isa; }
};

/// The card of no CPU in particular: of each size the smallest in the table.
inline constexpr std::string_view k_any_card = "any";

/// All that have the instruction set, `any` last.
[[nodiscard]] std::vector<HostCard> host_cards(HostIsa isa);

/// The card of that name. Throws InvalidArgument, listing what is known, where none has that name
/// and the instruction set; `target` is what was asked for.
[[nodiscard]] HostCard host_card(std::string_view name, HostIsa isa, std::string_view target);

/// Whether L3 is a mesh over dozens of cores: Intel's Xeons. AMD's cores share an L3 by eight or
/// sixteen, however large it is.
[[nodiscard]] bool has_far_l3(const HostCpu& cpu) noexcept;

/// The kind that a CPU is of by its model; none: the table has none.
[[nodiscard]] std::optional<HostCard> kind_of_cpu(const HostCpu& cpu) noexcept;

/// The card that a CPU is: its kind, if its caches are those of the table. L3, of which models and
/// virtual machines of one kind have more or less, may be half or twice as large if it is as far.
/// None: choices are made for the caches that the CPU says it has.
[[nodiscard]] std::optional<HostCard> card_of_cpu(const HostCpu& cpu) noexcept;

}  // namespace spjit
