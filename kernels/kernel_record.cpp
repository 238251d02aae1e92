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
      "the record of a kernel is no JSON object with a \"family\"; expected what Kernel::record() or "
      "spjit compile --emit json gave");
}

void apply_record(const nlohmann::json& record, KernelInfo& info) {
  if (!record.is_object()) return;
  take_text(record, "device_name", info.device);
  take_text(record, "note", info.note);
  const auto search = record.find("search");
  if (search != record.end() && search->is_object()) take_text(*search, "reason", info.reason);
}

}  // namespace spjit
