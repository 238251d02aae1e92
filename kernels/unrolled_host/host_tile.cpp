#include "kernels/unrolled_host/host_tile.hpp"

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

std::string to_string(const HostTile& tile) {
  return fmt::format("{}x{} k{} g{} r{} {} {} m{}{}", tile.m1, tile.nv, tile.k_block,
                     tile.panel_group, tile.row_group, tile.pack_b ? "packed" : "in-place",
                     name_of(tile.form), tile.memory_rows, tile.stream_c ? " stream" : "");
}

}  // namespace spjit
