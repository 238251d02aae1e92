#include "compiler/cache_key.hpp"

#include "artifact/families.hpp"
#include "base/hash.hpp"
#include "plan/search_policy.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

/// "csr 6, sliced 6" and so on.
std::string families_for(const Target& target) {
  std::string names;
  for (const KernelFamily* family : kernel_families()) {
    if (family->is_cuda() != target.is_cuda()) continue;
    if (!names.empty()) names += ", ";
    names += std::string(family->name()) + " " + family->version();
  }
  return names;
}

}  // namespace

std::string cache_key(const FamilyRequest& request, const std::string& rank_model,
                      const std::string& timed_on) {
  const CompileOptions& options = request.options;
  KeyBuilder key(request.cancel);
  key.field("spjit", SPJIT_VERSION).field("families", families_for(options.target));
  // Of a GPU the architecture is in the device's fields.
  if (options.target.is_cuda()) {
    key.field("keep_source", options.keep_source);
  } else {
    // Of a card, caches are in the device's fields: "host" on a Zen 4 is "host-avx512:zen4".
    key.field("isa", to_string(options.target.isa())).field("threads", options.resources.threads);
  }
  add_to_key(request.problem, key);
  add_to_key(request.device, key);
  add_to_key(options.policy, key);
  if (options.policy.search != SearchMode::instant) {
    key.field("timed_on", timed_on).field("rank_model", rank_model);
  }
  return key.hex();
}

}  // namespace spjit
