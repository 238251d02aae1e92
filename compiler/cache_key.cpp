#include "compiler/cache_key.hpp"

#include "artifact/families.hpp"
#include "base/hash.hpp"
#include "plan/search_policy.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

/// "csr 6, windows 6" and so on.
std::string names_of(std::span<const KernelFamily* const> families) {
  std::string names;
  for (const KernelFamily* family : families) {
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
  key.field("spjit", SPJIT_VERSION).field("families", names_of(families_for(options.target)));
  backend_of(options.target).add_to_key(options, request.device, key);
  add_to_key(request.problem, key);
  add_to_key(request.device, key);
  add_to_key(options.policy, named_options(), key);
  if (options.policy.search != SearchMode::instant) {
    key.field("timed_on", timed_on).field("rank_model", rank_model);
  }
  return key.hex();
}

}  // namespace spjit
