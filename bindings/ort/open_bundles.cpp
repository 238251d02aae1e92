#include "bindings/ort/open_bundles.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit::ort {
namespace {

/// Without sizes that a run says; `problem` is an object or of no use.
nlohmann::json without_run_sizes(nlohmann::json problem) {
  const auto n = problem.find("n");
  if (n == problem.end() || !n->is_object() || n->value("runtime", nlohmann::json()) != true) {
    return problem;
  }
  n->erase("value");
  for (const auto& [member, size] :
       {std::pair{"b", "leading_dimension"}, std::pair{"c", "leading_dimension"},
        std::pair{"convolution", "height"}, std::pair{"convolution", "width"}}) {
    const auto found = problem.find(member);
    if (found != problem.end() && found->is_object()) found->erase(size);
  }
  return problem;
}

/// Which file is at a path, behind symbolic links, as far as can be said.
std::optional<FileIdentity> file_at(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  return failed ? std::nullopt : identity_of(real);
}

SharedBundle open_bundle_file(const std::string& path, const std::string& public_key) {
  spjit_bundle_options options{};
  options.struct_size = sizeof options;
  if (!public_key.empty()) options.public_key = public_key.c_str();
  spjit_bundle* bundle = nullptr;
  if (spjit_bundle_open(path.c_str(), &options, &bundle) != SPJIT_OK) throw_last_error();
  return {bundle, spjit_bundle_destroy};
}

}  // namespace

void throw_last_error() { throw Error(spjit_last_error()); }

bool computes(std::string_view entry_json, std::string_view problem) {
  const nlohmann::json entry = parse_json(entry_json);
  try {
    return without_run_sizes(entry.at("problem")) == without_run_sizes(parse_json(problem));
  } catch (const Error& error) {
    throw Error(fmt::format("the attribute problem is no JSON: {}", error.what()));
  }
}

SharedBundle OpenBundles::open(const std::string& path) {
  Files& files = files_.get();
  const std::lock_guard lock(files.mutex);
  // Asked before the file is opened: one that comes between is opened again the next time.
  const std::optional<FileIdentity> identity = file_at(path);
  Opened& opened = files.opened[path];
  SharedBundle bundle = opened.bundle.lock();
  if (bundle == nullptr || !identity || opened.identity != identity) {
    bundle = open_bundle_file(path, public_key_);
    opened = {identity, bundle};
  }
  return bundle;
}

}  // namespace spjit::ort
