#include "kernels/kernel_record.hpp"

#include <nlohmann/json.hpp>

#include "spjit/error.hpp"

namespace spjit {
namespace {

void take_text(const nlohmann::json& object, const char* member, std::string& to) {
  const auto found = object.find(member);
  if (found != object.end() && found->is_string()) to = found->get<std::string>();
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

void apply_record(const nlohmann::json& record, KernelInfo& info) {
  if (!record.is_object()) return;
  take_text(record, "device", info.device);
  take_text(record, "note", info.note);
  const auto search = record.find("search");
  if (search != record.end() && search->is_object()) take_text(*search, "reason", info.reason);
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
