#include "compiler/compile_record.hpp"

#include "kernels/built_kernel.hpp"
#include "matrix/cancellable.hpp"
#include "plan/search_policy.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

json matrix_json(const CsrMatrix& matrix, const Cancellation& cancel) {
  const MatrixStatistics statistics = row_statistics(matrix, cancel);
  return {{"rows", statistics.rows},
          {"cols", statistics.cols},
          {"nnz", statistics.nnz},
          {"sparsity", statistics.sparsity},
          {"empty_rows", statistics.empty_rows}};
}

/// "unrolled: B has ...": the families that would have been faster, and then the one that was
/// taken.
std::string reason_of(const BuiltKernel& built, const std::vector<FamilyVerdict>& verdicts) {
  if (!built.reason.empty()) return built.reason;
  for (auto verdict = verdicts.rbegin() + 1; verdict < verdicts.rend(); ++verdict) {
    return verdicts.back().family + ": " + verdict->reason;
  }
  return verdicts.back().family;
}

json verdicts_json(const std::vector<FamilyVerdict>& verdicts) {
  json list = json::array();
  for (const FamilyVerdict& verdict : verdicts) {
    list.push_back({{"family", verdict.family}, {"reason", verdict.reason}});
  }
  return list;
}

/// What choices look at in a CPU; families of GPUs have a card of their own.
json card_json(const HostDeviceInfo& device) {
  return {{"name", device.card},
          {"l1i_bytes", device.l1i_bytes},
          {"l1d_bytes", device.l1d_bytes},
          {"l2_bytes", device.l2_bytes},
          {"l3_bytes", device.l3_bytes},
          {"l3_is_far", device.l3_is_far},
          {"fmas_per_cycle", device.fmas_per_cycle}};
}

}  // namespace

json make_record(const FamilyRequest& request, const BuiltKernel& built,
                 const std::vector<FamilyVerdict>& verdicts) {
  const CompileOptions& options = request.options;
  json record = {{"spjit", SPJIT_VERSION},
                 {"family", verdicts.back().family},
                 {"verdicts", verdicts_json(verdicts)},
                 {"target", options.target.name()},
                 {"device", product_of(request.device)},
                 {"matrix", matrix_json(*request.problem.a, request.cancel)},
                 {"problem", to_json(request.problem, request.cancel)},
                 {"policy", to_json(options.policy)},
                 {"threads", options.resources.threads},
                 {"tile", nullptr},
                 {"grouping", nullptr},
                 {"compile_ms", {{"group", 0.0}, {"emit", 0.0}}},
                 {"note", ""}};
  if (const auto* host = std::get_if<HostDeviceInfo>(&request.device)) {
    record["card"] = card_json(*host);
  }
  record.update(built.record);
  json& search = record["search"];
  if (search.is_null()) {
    search = {{"mode", std::string(to_string(options.policy.search))}, {"timed", false}};
  }
  search["reason"] = reason_of(built, verdicts);
  return record;
}

}  // namespace spjit
