#include "kernels/cuda/unrolled/cuda_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

struct DeviceNumber {
  const char* name;
  std::int64_t CudaDeviceInfo::*member;
};

constexpr std::array k_device_numbers = {
    DeviceNumber{"arch", &CudaDeviceInfo::arch},
    DeviceNumber{"sms", &CudaDeviceInfo::sms},
    DeviceNumber{"l2_bytes", &CudaDeviceInfo::l2_bytes},
    DeviceNumber{"registers_per_thread", &CudaDeviceInfo::registers_per_thread},
    DeviceNumber{"registers_per_block", &CudaDeviceInfo::registers_per_block},
    DeviceNumber{"registers_per_sm", &CudaDeviceInfo::registers_per_sm},
    DeviceNumber{"register_allocation_unit", &CudaDeviceInfo::register_allocation_unit},
    DeviceNumber{"sub_partitions", &CudaDeviceInfo::sub_partitions},
    DeviceNumber{"warp_size", &CudaDeviceInfo::warp_size},
    DeviceNumber{"threads_per_block", &CudaDeviceInfo::threads_per_block},
    DeviceNumber{"threads_per_sm", &CudaDeviceInfo::threads_per_sm},
    DeviceNumber{"blocks_per_sm", &CudaDeviceInfo::blocks_per_sm},
    DeviceNumber{"shared_per_sm_bytes", &CudaDeviceInfo::shared_per_sm_bytes},
    DeviceNumber{"shared_per_block_bytes", &CudaDeviceInfo::shared_per_block_bytes},
    DeviceNumber{"shared_per_block_optin_bytes", &CudaDeviceInfo::shared_per_block_optin_bytes},
    DeviceNumber{"reserved_shared_per_block_bytes",
                 &CudaDeviceInfo::reserved_shared_per_block_bytes},
    DeviceNumber{"shared_allocation_unit_bytes", &CudaDeviceInfo::shared_allocation_unit_bytes},
};

json device_json(const CudaDeviceInfo& limits) {
  json device = {{"card", limits.card}, {"product", limits.product}};
  for (const DeviceNumber& number : k_device_numbers) device[number.name] = limits.*number.member;
  return device;
}

CudaDeviceInfo read_device(const json& device) {
  CudaDeviceInfo limits;
  limits.card = device.at("card");
  limits.product = device.at("product");
  for (const DeviceNumber& number : k_device_numbers) {
    limits.*number.member = json_integer(device.at(number.name), number.name, 0, k_most_of_samples);
  }
  // What formulas divide by.
  for (const std::int64_t CudaDeviceInfo::*member :
       {&CudaDeviceInfo::sms, &CudaDeviceInfo::warp_size, &CudaDeviceInfo::sub_partitions}) {
    if (limits.*member < 1) throw Error("a device without SMs, warps or sub-partitions");
  }
  return limits;
}

/// Columns of `tiles`.
const std::vector<std::string>& columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"m1",
                                    "n1",
                                    "tiles_a_block",
                                    "unit_nonzeros",
                                    "reorder",
                                    "cap",
                                    "min_blocks",
                                    "register_cap",
                                    "accumulators",
                                    "b_in_flight",
                                    "values",
                                    "addressing",
                                    "row_tiles",
                                    "column_tiles",
                                    "blocks",
                                    "column_padding",
                                    "code_bytes",
                                    "active_blocks",
                                    "active_warps",
                                    "waves",
                                    "nnc_sum",
                                    "nnc_max",
                                    "tile_nnz_max",
                                    "tile_nnz_cv"};
    for (const char* name : k_time_columns) all.emplace_back(name);
    return all;
  }();
  return names;
}

json tile_row(const CudaSample& sample) {
  const CudaCandidate& candidate = sample.candidate;
  const CudaTile& tile = candidate.tile;
  const RegisterPrediction& registers = candidate.registers;
  const GroupingStatistics& grouping = candidate.grouping;
  json row = json::array({tile.m1,
                          tile.n1,
                          tile.tiles_a_block,
                          tile.unit_nonzeros,
                          static_cast<int>(tile.reorder),
                          static_cast<int>(tile.cap),
                          candidate.min_blocks,
                          candidate.register_cap,
                          registers.accumulators,
                          registers.b_in_flight,
                          registers.values,
                          registers.addressing,
                          candidate.row_tiles,
                          candidate.column_tiles,
                          candidate.blocks,
                          candidate.column_padding,
                          candidate.code_bytes,
                          candidate.occupancy.active_blocks,
                          candidate.occupancy.active_warps,
                          candidate.waves,
                          grouping.nnc_sum,
                          grouping.nnc_max,
                          grouping.tile_nnz_max,
                          grouping.tile_nnz_cv});
  write_time(sample, row);
  return row;
}

void read_tile_choice(TileNumbers& numbers, CudaTile& tile) {
  tile.m1 = numbers.integer();
  tile.n1 = numbers.integer();
  tile.tiles_a_block = numbers.integer();
  tile.unit_nonzeros = numbers.integer();
  tile.reorder = static_cast<ReorderAlgorithm>(
      numbers.integer(static_cast<std::int64_t>(ReorderAlgorithm::similarity)));
  tile.cap = static_cast<CudaCap>(numbers.integer(static_cast<std::int64_t>(CudaCap::grid)));
}

/// What follows from the other numbers.
void complete(GroupingStatistics& grouping, std::int64_t row_tiles, std::int64_t nnz) {
  grouping.tiles = row_tiles;
  const auto share = [](std::int64_t of, std::int64_t by) {
    return by > 0 ? static_cast<double>(of) / static_cast<double>(by) : 0;
  };
  grouping.nnc_mean = share(grouping.nnc_sum, row_tiles);
  grouping.fmas_per_load = share(nnz, grouping.nnc_sum);
}

CudaSample read_tile(const json& row, const Workload& work) {
  TileNumbers numbers(row, columns());
  CudaSample sample;
  CudaCandidate& candidate = sample.candidate;
  candidate.work = work;
  read_tile_choice(numbers, candidate.tile);
  candidate.min_blocks = numbers.integer();
  candidate.register_cap = numbers.integer();
  candidate.registers.accumulators = numbers.integer();
  candidate.registers.b_in_flight = numbers.integer();
  candidate.registers.values = numbers.integer();
  candidate.registers.addressing = numbers.integer();
  candidate.row_tiles = numbers.integer();
  candidate.column_tiles = numbers.integer();
  candidate.blocks = numbers.integer();
  candidate.column_padding = numbers.number();
  candidate.code_bytes = numbers.integer();
  candidate.occupancy.active_blocks = numbers.integer();
  candidate.occupancy.active_warps = numbers.integer();
  candidate.waves = numbers.number();
  candidate.grouping.nnc_sum = numbers.integer();
  candidate.grouping.nnc_max = numbers.integer();
  candidate.grouping.tile_nnz_max = numbers.integer();
  candidate.grouping.tile_nnz_cv = numbers.number();
  numbers.read_time(sample);
  complete(candidate.grouping, candidate.row_tiles, work.nnz);
  check_cuda_tile(candidate.tile, work.n);
  if (candidate.column_tiles < 1 || candidate.blocks % candidate.column_tiles != 0) {
    throw Error(
        fmt::format("{} blocks in {} column tiles", candidate.blocks, candidate.column_tiles));
  }
  return sample;
}

}  // namespace

SampleLine to_line(const CudaSampleGroup& group) {
  SampleLine line = line_of(group);
  line.family = k_cuda_samples;
  line.device = device_json(group.limits);
  line.columns = columns();
  for (const CudaSample& sample : group.samples) {
    line.tiles.push_back(tile_row(sample));
    line.keys.push_back(sample.key);
  }
  if (std::ranges::all_of(line.keys, &std::string::empty)) line.keys.clear();
  return line;
}

CudaSampleGroup cuda_samples_of(const SampleLine& line) {
  return reading_samples([&] {
    check_family(line, k_cuda_samples, columns());
    CudaSampleGroup group;
    take_line(line, group);
    group.limits = read_device(line.device);
    for (const json& row : line.tiles) group.samples.push_back(read_tile(row, group.work));
    for (std::size_t i = 0; i < line.keys.size(); ++i) group.samples[i].key = line.keys[i];
    return group;
  });
}

std::string write_samples(const CudaSampleGroup& group) {
  return write_sample_line(to_line(group));
}

CudaSampleGroup read_cuda_samples(std::string_view text) {
  return cuda_samples_of(read_sample_line(text));
}

}  // namespace spjit
