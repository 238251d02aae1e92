#include "kernels/kernel_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "base/json_text.hpp"
#include "runtime/cache/cache_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Of an entry that no family loads.
constexpr const char* k_code_family = "code";

void take_text(const nlohmann::json& object, const char* member, std::string& to) {
  const auto found = object.find(member);
  if (found != object.end() && found->is_string()) to = found->get<std::string>();
}

std::vector<CacheFileRecord> listed_files(const nlohmann::json& list) {
  try {
    return parse_cache_files(list);
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("\"files\" of the record of a kernel is damaged: {}",
                            json_problem(error.what())));
  }
}

}  // namespace

std::string family_in(const nlohmann::json& record) {
  if (record.is_object()) {
    const auto found = record.find("family");
    if (found != record.end() && found->is_string()) return found->get<std::string>();
  }
  throw Error(
      "the record of a kernel is no JSON object with a \"family\"; expected what Kernel::record() "
      "or "
      "spjit compile --emit json gave");
}

nlohmann::json code_record() { return {{"family", k_code_family}}; }

bool is_code_record(const nlohmann::json& record) {
  return record.is_object() && record.value("family", nlohmann::json()) == k_code_family;
}

void apply_record(const nlohmann::json& record, KernelInfo& info) {
  if (!record.is_object()) return;
  take_text(record, "device", info.device);
  take_text(record, "note", info.note);
  const auto search = record.find("search");
  if (search != record.end() && search->is_object()) take_text(*search, "reason", info.reason);
}

nlohmann::json files_json(const std::vector<Artifact::File>& files) {
  std::vector<CacheFileRecord> listed;
  listed.reserve(files.size());
  for (const Artifact::File& file : files) {
    listed.push_back({file.name, std::ssize(file.bytes), checksum_hex(file.bytes)});
  }
  std::ranges::sort(listed, {}, &CacheFileRecord::name);
  return write_cache_files(listed);
}

void require_own_files(const KernelFamily& family, const nlohmann::json& record,
                       const std::vector<Artifact::File>& files) {
  if (!record.is_object() || !record.contains("files")) return;
  for (const CacheFileRecord& listed : listed_files(record.at("files"))) {
    for (const Artifact::File& file : files) {
      if (file.name != listed.name || family.takes_in_place(file)) continue;
      if (std::ssize(file.bytes) == listed.bytes && checksum_hex(file.bytes) == listed.checksum) {
        continue;
      }
      throw Error(
          fmt::format("the file \"{}\" is damaged, or the record is of another kernel: it has {} "
                      "bytes that do not match the record's checksum",
                      file.name, file.bytes.size()));
    }
  }
}

nlohmann::json to_json(const GroupingStatistics& grouping) {
  return {{"tiles", grouping.tiles},
          {"nnc_sum", grouping.nnc_sum},
          {"nnc_max", grouping.nnc_max},
          {"nnc_mean", grouping.nnc_mean},
          {"tile_nnz_min", grouping.tile_nnz_min},
          {"tile_nnz_max", grouping.tile_nnz_max},
          {"tile_nnz_cv", grouping.tile_nnz_cv},
          {"fmas_per_load", grouping.fmas_per_load}};
}

}  // namespace spjit
