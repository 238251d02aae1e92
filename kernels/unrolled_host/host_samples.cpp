#include "kernels/unrolled_host/host_samples.hpp"

#include <fmt/format.h>

#include <map>

#include "base/json_text.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// Whole numbers of a line: sizes, counts and bytes.
constexpr std::int64_t k_most = std::int64_t{1} << 48;

std::int64_t count_of(const json& object, const char* key) {
  return json_integer(object.at(key), key, 0, k_most);
}

/// Columns of `tiles`.
const std::vector<std::string>& columns() {
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
  return json::array({tile.m1, tile.nv, tile.k_block, tile.panel_group, tile.row_group,
                      tile.pack_b ? 1 : 0, static_cast<int>(tile.form), tile.memory_rows,
                      tile.stream_c ? 1 : 0, candidate.panels, candidate.registers,
                      candidate.code_bytes, candidate.column_padding, candidate.utilisation,
                      sample.us, sample.noise, sample.samples, sample.confirmed ? 1 : 0});
}

HostSample read_tile(const json& row, const std::map<std::int64_t, GroupingStatistics>& groupings) {
  if (row.size() != columns().size()) {
    throw Error(fmt::format("a tile has {} numbers; expected {}", row.size(), columns().size()));
  }
  std::size_t next = 0;
  const auto integer = [&](std::int64_t most = k_most) {
    const std::size_t at = next++;
    return json_integer(row.at(at), columns()[at], 0, most);
  };
  const auto number = [&] { return row.at(next++).get<double>(); };
  HostSample sample;
  HostTile& tile = sample.candidate.tile;
  tile.m1 = integer();
  tile.nv = integer();
  tile.k_block = integer();
  tile.panel_group = integer();
  tile.row_group = integer();
  tile.pack_b = integer(1) != 0;
  tile.form = static_cast<WeightForm>(integer(static_cast<std::int64_t>(WeightForm::balanced)));
  tile.memory_rows = integer();
  tile.stream_c = integer(1) != 0;
  sample.candidate.panels = integer();
  sample.candidate.registers = integer();
  sample.candidate.code_bytes = integer();
  sample.candidate.column_padding = number();
  sample.candidate.utilisation = number();
  sample.us = number();
  sample.noise = number();
  sample.samples = integer();
  sample.confirmed = integer() != 0;
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

HostDeviceInfo read_device(const json& device) {
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

json work_json(const Workload& work) {
  return {{"rows", work.rows}, {"cols", work.cols},       {"nnz", work.nnz},
          {"n", work.n},       {"threads", work.threads}, {"row_nnz_cv", work.row_nnz_cv}};
}

Workload read_work(const json& work) {
  Workload result;
  result.rows = count_of(work, "rows");
  result.cols = count_of(work, "cols");
  result.nnz = count_of(work, "nnz");
  result.n = count_of(work, "n");
  result.threads = count_of(work, "threads");
  result.row_nnz_cv = work.at("row_nnz_cv");
  return result;
}

GroupingStatistics read_grouping(const json& row, std::int64_t nnz) {
  GroupingStatistics grouping;
  grouping.tiles = json_integer(row.at(1), "tiles of a grouping", 0, k_most);
  grouping.nnc_sum = json_integer(row.at(2), "nnc_sum of a grouping", 0, k_most);
  if (grouping.tiles > 0) {
    grouping.nnc_mean = static_cast<double>(grouping.nnc_sum) / static_cast<double>(grouping.tiles);
  }
  if (grouping.nnc_sum > 0) {
    grouping.fmas_per_load = static_cast<double>(nnz) / static_cast<double>(grouping.nnc_sum);
  }
  return grouping;
}

}  // namespace

std::string write_samples(const HostSampleGroup& group) {
  std::map<std::int64_t, const GroupingStatistics*> groupings;
  json tiles = json::array();
  for (const HostSample& sample : group.samples) {
    groupings[sample.candidate.tile.m1] = &sample.candidate.grouping;
    tiles.push_back(tile_row(sample));
  }
  json grouping_rows = json::array();
  for (const auto& [m1, grouping] : groupings) {
    grouping_rows.push_back({m1, grouping->tiles, grouping->nnc_sum});
  }
  const json line = {{"schema", k_host_samples_schema},
                     {"spjit", SPJIT_VERSION},
                     {"name", group.name},
                     {"recipe", group.recipe},
                     {"device", device_json(group.limits)},
                     {"work", work_json(group.work)},
                     {"groupings", std::move(grouping_rows)},
                     {"columns", columns()},
                     {"tiles", std::move(tiles)},
                     {"seconds", group.seconds}};
  return line.dump();
}

HostSampleGroup read_samples(std::string_view line) {
  try {
    const json document = parse_json(line);
    const json& schema = document.at("schema");
    if (schema != k_host_samples_schema) {
      throw Error(
          fmt::format("schema {}; expected \"{}\"", quoted_json(schema), k_host_samples_schema));
    }
    if (document.at("columns") != json(columns())) {
      throw Error("the columns of the tiles are not those of this version");
    }
    HostSampleGroup group;
    group.name = document.at("name");
    group.recipe = document.at("recipe");
    group.limits = read_device(document.at("device"));
    group.work = read_work(document.at("work"));
    group.seconds = document.at("seconds");
    std::map<std::int64_t, GroupingStatistics> groupings;
    for (const json& row : document.at("groupings")) {
      groupings[json_integer(row.at(0), "m1 of a grouping", 0, k_most)] =
          read_grouping(row, group.work.nnz);
    }
    for (const json& row : document.at("tiles")) {
      group.samples.push_back(read_tile(row, groupings));
    }
    return group;
  } catch (const json::exception& error) {
    throw Error(fmt::format("not a line of samples: {}", error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("not a line of samples: {}", error.what()));
  }
}

}  // namespace spjit
