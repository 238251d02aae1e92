#include "kernels/host/unrolled/host_samples.hpp"

#include <fmt/format.h>

#include <map>

#include "base/json_text.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

std::int64_t count_of(const json& object, const char* key) {
  return json_integer(object.at(key), key, 0, k_most_of_samples);
}

/// Columns of `tiles`.
const std::vector<std::string>& host_columns() {
  static const std::vector<std::string> names = {
      "m1",        "nv",         "k_block",        "panel_group", "row_group",
      "pack_b",    "form",       "memory_rows",    "stream_c",    "panels",
      "registers", "code_bytes", "column_padding", "utilisation", "us",
      "noise",     "samples",    "confirmed"};
  return names;
}

json tile_row(const HostSample& sample) {
  const TileCandidate& candidate = sample.candidate;
  const HostTile& tile = candidate.tile;
  json row = json::array({tile.m1, tile.nv, tile.k_block, tile.panel_group, tile.row_group,
                          tile.pack_b ? 1 : 0, static_cast<int>(tile.form), tile.memory_rows,
                          tile.stream_c ? 1 : 0, candidate.panels, candidate.registers,
                          candidate.code_bytes, candidate.column_padding, candidate.utilisation});
  write_time(sample, row);
  return row;
}

HostSample read_tile(const json& row, const std::map<std::int64_t, GroupingStatistics>& groupings) {
  TileNumbers numbers(row, host_columns());
  HostSample sample;
  HostTile& tile = sample.candidate.tile;
  tile.m1 = numbers.integer();
  tile.nv = numbers.integer();
  tile.k_block = numbers.integer();
  tile.panel_group = numbers.integer();
  tile.row_group = numbers.integer();
  tile.pack_b = numbers.integer(1) != 0;
  tile.form =
      static_cast<WeightForm>(numbers.integer(static_cast<std::int64_t>(WeightForm::balanced)));
  tile.memory_rows = numbers.integer();
  tile.stream_c = numbers.integer(1) != 0;
  sample.candidate.panels = numbers.integer();
  sample.candidate.registers = numbers.integer();
  sample.candidate.code_bytes = numbers.integer();
  sample.candidate.column_padding = numbers.number();
  sample.candidate.utilisation = numbers.number();
  numbers.read_time(sample);
  const auto grouping = groupings.find(tile.m1);
  if (grouping == groupings.end()) throw Error(fmt::format("no grouping for m1 = {}", tile.m1));
  sample.candidate.grouping = grouping->second;
  return sample;
}

json device_json(const HostDeviceInfo& limits) {
  return {{"name", limits.name},           {"isa", std::string(to_string(limits.isa))},
          {"lanes", limits.lanes},         {"registers", limits.registers},
          {"l1i_bytes", limits.l1i_bytes}, {"l1d_bytes", limits.l1d_bytes},
          {"l2_bytes", limits.l2_bytes},   {"l3_bytes", limits.l3_bytes},
          {"cpus", limits.cpus},           {"fmas_per_cycle", limits.fmas_per_cycle}};
}

HostIsa read_isa(const json& name) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    if (name == to_string(isa)) return isa;
  }
  throw Error(fmt::format("isa is {}; expected avx512, avx2 or generic", quoted_json(name)));
}

HostDeviceInfo read_host_device(const json& device) {
  HostDeviceInfo limits;
  limits.name = device.at("name");
  limits.isa = read_isa(device.at("isa"));
  limits.lanes = count_of(device, "lanes");
  limits.registers = count_of(device, "registers");
  limits.l1i_bytes = count_of(device, "l1i_bytes");
  limits.l1d_bytes = count_of(device, "l1d_bytes");
  limits.l2_bytes = count_of(device, "l2_bytes");
  limits.l3_bytes = count_of(device, "l3_bytes");
  limits.cpus = count_of(device, "cpus");
  limits.fmas_per_cycle = count_of(device, "fmas_per_cycle");
  return limits;
}

GroupingStatistics read_grouping(const json& row, std::int64_t nnz) {
  GroupingStatistics grouping;
  grouping.tiles = json_integer(row.at(1), "tiles of a grouping", 0, k_most_of_samples);
  grouping.nnc_sum = json_integer(row.at(2), "nnc_sum of a grouping", 0, k_most_of_samples);
  if (grouping.tiles > 0) {
    grouping.nnc_mean = static_cast<double>(grouping.nnc_sum) / static_cast<double>(grouping.tiles);
  }
  if (grouping.nnc_sum > 0) {
    grouping.fmas_per_load = static_cast<double>(nnz) / static_cast<double>(grouping.nnc_sum);
  }
  return grouping;
}

}  // namespace

SampleLine to_line(const HostSampleGroup& group) {
  SampleLine line = line_of(group);
  line.family = k_host_samples;
  line.device = device_json(group.limits);
  line.columns = host_columns();
  std::map<std::int64_t, const GroupingStatistics*> groupings;
  for (const HostSample& sample : group.samples) {
    groupings[sample.candidate.tile.m1] = &sample.candidate.grouping;
    line.tiles.push_back(tile_row(sample));
  }
  line.groupings = json::array();
  for (const auto& [m1, grouping] : groupings) {
    line.groupings.push_back({m1, grouping->tiles, grouping->nnc_sum});
  }
  return line;
}

HostSampleGroup host_samples_of(const SampleLine& line) {
  return reading_samples([&] {
    check_family(line, k_host_samples, host_columns());
    HostSampleGroup group;
    take_line(line, group);
    group.limits = read_host_device(line.device);
    std::map<std::int64_t, GroupingStatistics> groupings;
    for (const json& row : line.groupings) {
      groupings[json_integer(row.at(0), "m1 of a grouping", 0, k_most_of_samples)] =
          read_grouping(row, group.work.nnz);
    }
    for (const json& row : line.tiles) group.samples.push_back(read_tile(row, groupings));
    return group;
  });
}

std::string write_samples(const HostSampleGroup& group) {
  return write_sample_line(to_line(group));
}

HostSampleGroup read_host_samples(std::string_view text) {
  return host_samples_of(read_sample_line(text));
}

}  // namespace spjit
