#include "compiler/cache_key.hpp"

#include <list>
#include <map>
#include <nlohmann/json.hpp>

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

/// Adds all fields, part by part: `builder(part)` gives where to.
template <class BuilderOf>
void add_fields(const FamilyRequest& request, const std::string& rank_model,
                const std::string& timed_on, const BuilderOf& builder) {
  const CompileOptions& options = request.options;
  builder("versions")
      .field("spjit", SPJIT_VERSION)
      .field("families", names_of(families_for(options.target)));
  backend_of(options.target).add_to_key(options, request.device, builder("target"));
  add_to_key(request.problem, builder("problem"));
  add_to_key(request.device, builder("device"));
  add_to_key(options.policy, named_options(), builder("policy"));
  if (options.policy.search != SearchMode::instant) {
    builder("search").field("timed_on", timed_on).field("rank_model", rank_model);
  }
}

}  // namespace

std::string cache_key(const FamilyRequest& request, const std::string& rank_model,
                      const std::string& timed_on) {
  KeyBuilder key(request.cancel);
  add_fields(request, rank_model, timed_on,
             [&](const char* /*part*/) -> KeyBuilder& { return key; });
  return key.hex();
}

nlohmann::json cache_key_fields(const FamilyRequest& request, const std::string& rank_model,
                                const std::string& timed_on) {
  std::map<std::string, KeyFields> parts;
  std::list<KeyBuilder> builders;
  add_fields(request, rank_model, timed_on, [&](const char* part) -> KeyBuilder& {
    return builders.emplace_back(request.cancel, &parts[part]);
  });
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [part, listed] : parts) {
    for (const auto& [name, value] : listed) fields[part][name] = value;
  }
  return fields;
}

std::string timed_on(const FamilyRequest& request) {
  if (request.options.policy.search == SearchMode::instant) return {};
  return backend_of(request.options.target).timed_on(request.options.target, request.device);
}

}  // namespace spjit
