// What a warp touches: LDG STG LD ST, LDS STS, LDL STL, LDC

#include <algorithm>

#include "clock/sector_cache.hpp"
#include "clock/warp_walker.hpp"

namespace spjit {
namespace {

using sass::for_each_lane;
using sass::k_lanes;
using sass::LaneMask;

constexpr std::uint64_t k_bank_bytes = 4;
constexpr std::uint64_t k_banks = 32;

/// Local memory of all threads, word by word of a warp side by side as NVIDIA's programming guide
/// says ("Local Memory"): a warp's accesses to the same variable are one line.
constexpr std::uint64_t k_local_base = std::uint64_t{1} << 42;
/// Where loads go whose address is computed from numbers.
constexpr std::uint64_t k_lookup_base = std::uint64_t{1} << 43;
constexpr std::uint64_t k_lookup_sectors = 4;

}  // namespace

/// The addresses of the lanes, and in `known` those that are.
KnownLanes WarpWalk::low_addresses(const sass::Operand& operand,
                                   std::array<std::uint64_t, k_lanes>& addresses,
                                   const ClockOperation& /*operation*/) const {
  const bool is_pair = operand.form == sass::AddressForm::wide;
  const bool is_wide = operand.form != sass::AddressForm::narrow;
  const bool has_register = operand.number != sass::k_zero_register;
  KnownLanes found;
  found.known = sass::k_all_lanes;
  std::uint64_t uniform = 0;
  if (operand.uniform != sass::k_zero_uniform) {
    for (unsigned part = 0; part < (is_wide ? 2U : 1U); ++part) {
      const KnownWord word = registers_.uniform(operand.uniform + part);
      if (!word.is_known) found.known = 0;
      if (word.is_loaded) found.loaded = sass::k_all_lanes;
      uniform |= std::uint64_t{word.value} << 32 * part;
    }
  }
  const KnownLanes& low = registers_.lanes(operand.number);
  const KnownLanes& high = registers_.lanes(
      is_pair && has_register ? operand.number + 1U : unsigned{sass::k_zero_register});
  found.known &= low.known & high.known;
  found.loaded |= low.loaded | high.loaded;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    std::uint64_t address = std::uint64_t{low.lanes[lane]} * operand.scale;
    address |= std::uint64_t{high.lanes[lane]} << 32;
    address += uniform + static_cast<std::uint64_t>(operand.value);
    addresses[lane] = is_wide ? address : address & 0xffffffff;
  }
  return found;
}

void WarpWalk::add_sectors(const std::array<std::uint64_t, k_lanes>& addresses, unsigned width) {
  TraceAccess made;
  made.first = static_cast<std::uint32_t>(trace_.sectors.size());
  const auto begin = static_cast<std::ptrdiff_t>(made.first);
  std::uint64_t last = ~std::uint64_t{0};
  bool ascends = true;
  for_each_lane(perhaps_, [&](unsigned lane) {
    const std::uint64_t sector = addresses[lane] / k_sector_bytes;
    for (std::uint64_t s = sector; s <= (addresses[lane] + width - 1) / k_sector_bytes; ++s) {
      if (s == last) continue;
      ascends = ascends && (last == ~std::uint64_t{0} || s > last);
      trace_.sectors.push_back(s);
      last = s;
    }
  });
  if (!ascends) {
    std::sort(trace_.sectors.begin() + begin, trace_.sectors.end());
    trace_.sectors.erase(std::unique(trace_.sectors.begin() + begin, trace_.sectors.end()),
                         trace_.sectors.end());
  }
  made.count = static_cast<std::uint16_t>(trace_.sectors.size() - made.first);
  access_ = static_cast<std::uint32_t>(trace_.accesses.size());
  trace_.accesses.push_back(made);
}

/// Lanes of 8 and 16 bytes are served in two and four parts of the warp; within a part a bank gives
/// one word a pass, to all lanes that want it.
void WarpWalk::add_passes(const std::array<std::uint64_t, k_lanes>& addresses, unsigned width) {
  const unsigned parts = std::max(1U, width / static_cast<unsigned>(k_bank_bytes));
  const unsigned lanes_a_part = k_lanes / parts;
  TraceAccess made;
  made.passes = 0;
  for (unsigned part = 0; part < parts; ++part) {
    std::array<std::array<std::uint64_t, k_lanes>, k_banks> words = {};
    std::array<std::uint16_t, k_banks> counts = {};
    for (unsigned lane = part * lanes_a_part; lane < (part + 1) * lanes_a_part; ++lane) {
      if ((perhaps_ >> lane & 1) == 0) continue;
      for (std::uint64_t byte = 0; byte < width; byte += k_bank_bytes) {
        const std::uint64_t word = (addresses[lane] + byte) / k_bank_bytes;
        auto& bank = words[word % k_banks];
        auto& count = counts[word % k_banks];
        if (std::find(bank.begin(), bank.begin() + count, word) != bank.begin() + count) continue;
        if (count < k_lanes) bank[count++] = word;
      }
    }
    const std::uint16_t most = *std::max_element(counts.begin(), counts.end());
    made.passes = static_cast<std::uint16_t>(made.passes + most);
  }
  made.passes = std::max<std::uint16_t>(made.passes, 1);
  access_ = static_cast<std::uint32_t>(trace_.accesses.size());
  trace_.accesses.push_back(made);
}

/// A spilled register is known again when it is loaded, if all lanes have it at one offset.
void WarpWalk::local(const ClockOperation& operation,
                     const std::array<std::uint64_t, k_lanes>& addresses) {
  const auto first = static_cast<unsigned>(__builtin_ctz(perhaps_));
  const std::uint64_t offset = addresses[first];
  bool is_same = true;
  for_each_lane(perhaps_, [&](unsigned lane) { is_same = is_same && addresses[lane] == offset; });
  const sass::Operand& data = operation.instruction.operands[operation.is_store ? 1 : 0];
  for (unsigned i = 0; i < data.registers; ++i) {
    const std::uint64_t word = offset + 4 * std::uint64_t{i};
    if (operation.is_store) {
      const bool keeps = is_same && certain_ == perhaps_ && operation.width_bytes >= 4;
      KnownLanes value = registers_.lanes(
          data.number == sass::k_zero_register ? unsigned{data.number} : data.number + i);
      value.known &= keeps ? certain_ : 0;
      stack_[word] = value;
      continue;
    }
    const auto found = stack_.find(word);
    if (is_same && found != stack_.end() && operation.width_bytes >= 4) {
      write(data, found->second, i);
    } else if (data.number != sass::k_zero_register) {
      registers_.forget(data.number + i, perhaps_, true);
    }
  }
  // Each word of a warp is one line.
  std::array<std::uint64_t, k_lanes> places = {};
  const std::uint64_t warp = block_number_ * launch_.warps() + warp_;
  const auto bytes = static_cast<std::uint64_t>(launch_.kernel.info.stack_bytes);
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    places[lane] =
        k_local_base + (warp * bytes + addresses[lane] / 4 * 4) * k_lanes + std::uint64_t{lane} * 4;
  }
  const unsigned words = std::max<unsigned>(operation.width_bytes / 4, 1);
  const std::size_t before = trace_.accesses.size();
  add_sectors(places, 4);
  for (unsigned i = 1; i < words; ++i) {
    for (std::uint64_t& place : places) place += k_line_bytes;
    const auto size = trace_.sectors.size();
    add_sectors(places, 4);
    trace_.accesses.pop_back();
    trace_.accesses[before].count =
        static_cast<std::uint16_t>(trace_.accesses[before].count + (trace_.sectors.size() - size));
  }
  access_ = static_cast<std::uint32_t>(before);
}

void WarpWalk::access(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  std::array<std::uint64_t, k_lanes> addresses = {};
  const KnownLanes found =
      low_addresses(operands[operation.is_store ? 0 : 1], addresses, operation);
  const bool is_known = (perhaps_ & ~found.known) == 0;
  if (!is_known) {
    if ((perhaps_ & ~found.known & found.loaded) != 0 || operation.is_store ||
        operation.unit == ClockUnit::local) {
      refuse("its address depends on loaded data");
    }
    ++trace_.assumed_accesses;
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      addresses[lane] = k_lookup_base + lane % k_lookup_sectors * k_line_bytes;
    }
  }
  if (operation.unit == ClockUnit::local) return local(operation, addresses);
  if (operation.unit == ClockUnit::shared) {
    add_passes(addresses, operation.width_bytes);
  } else {
    add_sectors(addresses, operation.width_bytes);
  }
  if (operation.is_load) forget_results(operation, true);
}

void WarpWalk::load_constant(const ClockOperation& operation) {
  const auto& operands = operation.instruction.operands;
  const sass::Operand& from = operands[1];
  const KnownLanes& base = registers_.lanes(from.number);
  for (unsigned part = 0; part < operands[0].registers; ++part) {
    KnownLanes made;
    made.loaded = base.loaded;
    for_each_lane(perhaps_ & base.known, [&](unsigned lane) {
      const std::int64_t offset = from.value + base.lanes[lane] + 4 * std::int64_t{part};
      const KnownWord word =
          this->word(from.bank, offset, std::min<unsigned>(operation.width_bytes, 4));
      made.lanes[lane] = word.value;
      made.known |= LaneMask{word.is_known} << lane;
    });
    write(operands[0], made, part);
  }
}

}  // namespace spjit
