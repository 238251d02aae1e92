#include "compiler/host_tile.hpp"

#include <fmt/format.h>

namespace spjit {
namespace {

const char* name_of(WeightForm form) {
  switch (form) {
    case WeightForm::broadcast:
      return "broadcast";
    case WeightForm::register_:
      return "register";
    case WeightForm::balanced:
      return "balanced";
  }
  return "?";
}

}  // namespace

bool can_read_in_place(const HostTile& tile, std::int64_t lanes, std::int64_t n, std::int64_t ldb,
                       std::int64_t k) {
  constexpr std::int64_t k_max_stride = std::int64_t{1} << 18;  // floats
  constexpr std::int64_t k_max_extent = std::int64_t{1} << 28;  // floats: 2^30 bytes
  return n >= tile.nv * lanes && ldb <= k_max_stride && k <= k_max_extent / ldb;
}

std::string to_string(const HostTile& tile) {
  return fmt::format("{}x{} k{} g{} r{} {} {} m{}{}", tile.m1, tile.nv, tile.k_block,
                     tile.panel_group, tile.row_group, tile.pack_b ? "packed" : "in-place",
                     name_of(tile.form), tile.memory_rows, tile.stream_c ? " stream" : "");
}

}  // namespace spjit
