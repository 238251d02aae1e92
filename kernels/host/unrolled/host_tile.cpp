#include "kernels/host/unrolled/host_tile.hpp"

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
  std::string text = fmt::format("rows={} vectors={}", tile.m1, tile.nv);
  if (tile.k_block > 0) text += fmt::format(" k_block={}", tile.k_block);
  text += fmt::format(" panels={}", tile.panel_group);
  if (tile.row_group > 0) text += fmt::format(" row_group={}", tile.row_group);
  text += tile.pack_b ? " packed" : " in-place";
  if (tile.form != WeightForm::broadcast) text += fmt::format(" weights={}", name_of(tile.form));
  if (tile.memory_rows != 1) text += fmt::format(" memory_rows={}", tile.memory_rows);
  if (tile.join_bytes != 0) text += fmt::format(" join={}", tile.join_bytes);
  if (tile.stream_c) text += " stream";
  if (tile.read_ahead) text += " read-ahead";
  return text;
}

}  // namespace spjit
