#include "compiler/cache_question.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "compiler/cache_key.hpp"
#include "compiler/compile_options.hpp"
#include "compiler/pipeline.hpp"
#include "plan/problem.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {
namespace {

std::optional<RemoteKnowledge> ask_server(const RemoteCache* remote, const std::string& key) {
  if (remote == nullptr) return std::nullopt;
  RemoteKnowledge knowledge{.url = remote->settings().url};
  if (remote->server() == nullptr) {
    knowledge.problem = "there is no libcurl";
    return knowledge;
  }
  RemoteAnswer answer = remote->server()->look(key, {});
  knowledge.has_kernel = answer.is_found;
  knowledge.problem = answer.miss == RemoteMiss::breaker ? "it is left alone: it failed just before"
                                                         : std::move(answer.problem);
  return knowledge;
}

}  // namespace

CacheAnswer ask_caches(const OpenedCache& opened, const Problem& given,
                       const CompileOptions& options) {
  const CompileOptions checked = checked_options(options);
  const Problem problem = checked_problem(given);
  check_for_target(problem, checked.target);
  const DeviceInfo device = backend_of(checked.target).device_info(checked.target);
  const FamilyRequest request{problem, checked, device, {}};
  const std::shared_ptr<const LoadedRankModel> model = rank_model_of(checked);
  const std::string model_id = model ? model->id : "";
  const std::string device_name = timed_on(request);
  CacheAnswer answer{.key = cache_key(request, model_id, device_name), .note = opened.note};
  if (!opened.cache) return answer;
  const CacheLookup found = opened.cache->lookup(answer.key, {}, {.is_off = true});
  add_note(answer.note, found.miss_reason);
  if (found.entry) {
    answer.found_in = found.entry->root.string();
    return answer;
  }
  answer.remote = ask_server(opened.cache->remote(), answer.key);
  answer.nearest = nearest_kernel(
      {.fields = cache_key_fields(request, model_id, device_name), .target = checked.target.name()},
      opened.cache->kernels());
  return answer;
}

}  // namespace spjit
