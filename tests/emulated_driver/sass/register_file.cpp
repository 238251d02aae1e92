#include "emulated_driver/sass/register_file.hpp"

#include <fmt/format.h>

namespace spjit::emulated {

std::string register_text(RegisterIndex index) {
  if (index >= k_uniform_predicate_base) {
    return fmt::format("UP{}", index - k_uniform_predicate_base);
  }
  if (index >= k_predicate_base) return fmt::format("P{}", index - k_predicate_base);
  if (index >= k_uniform_base) return fmt::format("UR{}", index - k_uniform_base);
  return fmt::format("R{}", index);
}

RegisterFile::RegisterFile(unsigned registers) : lanes_(registers) {
  predicates_[sass::k_true] = k_all_lanes;
  uniform_predicates_[sass::k_true] = 1;
}

void RegisterFile::write(unsigned number, const Lanes& values, LaneMask mask) {
  if (number == sass::k_zero_register) return;
  Lanes& to = lanes_[number];
  if (mask == k_all_lanes) {
    to = values;
  } else {
    for_each_lane(mask, [&](unsigned lane) { to[lane] = values[lane]; });
  }
  written_[number] |= mask;
}

void RegisterFile::write_predicate(unsigned number, LaneMask values, LaneMask mask) {
  if (number == sass::k_true) return;
  predicates_[number] = (predicates_[number] & ~mask) | (values & mask);
  written_[k_predicate_base + number] |= mask;
}

void RegisterFile::write_uniform(unsigned number, std::uint32_t value) {
  if (number == sass::k_zero_uniform) return;
  uniforms_[number] = value;
  written_[k_uniform_base + number] = k_all_lanes;
}

void RegisterFile::write_uniform_predicate(unsigned number, bool value) {
  if (number == sass::k_true) return;
  uniform_predicates_[number] = value ? 1 : 0;
  written_[k_uniform_predicate_base + number] = k_all_lanes;
}

}  // namespace spjit::emulated
