#include "artifact/bundle_entry.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_text.hpp"
#include "kernels/kernel_record.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

using nlohmann::json;

/// Without the card, which says what a choice was made for, not what runs.
Target target_in(const json& record) {
  const std::string name = JsonMembers(record, "the record").text("target");
  return Target::parse(name.substr(0, name.find(':')));
}

/// What choices were made for; records of an older spjit and of CPUs that are not listed name none.
std::string card_in(const json& record) {
  const auto card = record.find("card");
  if (card == record.end() || !card->is_object()) return {};
  const auto name = card->find("name");
  return name != card->end() && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

BundleEntry bundle_entry_of(const BundleKernel& kernel, const BundleIndex& index) {
  constexpr auto k_most = std::numeric_limits<std::int64_t>::max();
  BundleEntry entry;
  entry.layer = kernel.layer;
  entry.key = kernel.key;
  entry.family = family_in(kernel.record);
  entry.target = target_in(kernel.record);
  entry.card = card_in(kernel.record);
  const json& problem = JsonMembers(kernel.record, "the record").at("problem");
  JsonMembers members(problem, "\"problem\"");
  JsonMembers a(members.at("a"), "\"a\" of \"problem\"");
  entry.weights = a.text("hash");
  entry.rows = a.integer("rows", 0, k_max_dimension);
  entry.cols = a.integer("cols", 0, k_max_dimension);
  entry.nnz = a.integer("nnz", 0, k_most);
  JsonMembers n(members.at("n"), "\"n\" of \"problem\"");
  entry.n = n.integer("value", 1, k_max_dimension);
  entry.n.runtime = n.boolean("runtime");
  for (const BundleFileName& file : kernel.files) entry.bytes += index.blobs[file.blob].bytes;
  entry.problem = problem.dump();
  return entry;
}

}  // namespace spjit
