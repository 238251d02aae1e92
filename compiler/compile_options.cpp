// The options of a compilation: their names, and what is a legal value.

#include "compiler/compile_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "artifact/families.hpp"
#include "base/environment.hpp"
#include "base/host_cpu.hpp"
#include "base/thread_pool.hpp"
#include "plan/search_policy.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr double k_most_ms = 1e9;  // 11 days; counts of nanoseconds must not overflow

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw InvalidArgument(fmt::format("{} is {}; expected {} to {}", name, value, least, most));
  }
}

/// `last`: the enumerator that stands last; they count from 0.
template <class Enum>
void check_enum(const char* name, Enum value, Enum last) {
  check_range(name, static_cast<std::int64_t>(value), 0, static_cast<std::int64_t>(last));
}

void check_path(const char* name, const std::filesystem::path& path) {
  if (path.native().find('\0') == std::string::npos) return;
  throw InvalidArgument(fmt::format("{} is '{}', with a zero byte in it", name, path.native()));
}

void check_family(const std::string& name) {
  if (name.empty() || is_family(name)) return;
  throw InvalidArgument(fmt::format("the family of kernels \"{}\" is unknown; expected one of {}",
                                    name, fmt::join(family_names(), ", ")));
}

void check_search(const SearchPolicy& policy) {
  check_family(policy.family);
  check_enum("search", policy.search, SearchMode::exhaustive);
  check_enum("reorder", policy.reorder, ReorderAlgorithm::automatic);
  check_path("rank_model", policy.rank_model);
  if (policy.network_nnz < 0) {
    throw InvalidArgument(fmt::format("network_nnz is {}; expected the nonzeros of a network, or 0",
                                      policy.network_nnz));
  }
  if (policy.top_k < 1) {
    throw InvalidArgument(
        fmt::format("top_k is {}; expected at least 1 tile to time", policy.top_k));
  }
  if (!(policy.search_budget_ms >= 0 && policy.search_budget_ms <= k_most_ms)) {
    throw InvalidArgument(fmt::format("the search budget is {} ms; expected 0 to {}",
                                      policy.search_budget_ms, k_most_ms));
  }
  if (policy.code_budget_bytes < 0) {
    throw InvalidArgument(
        fmt::format("the code budget is {} bytes; expected 0 or more", policy.code_budget_bytes));
  }
}

void check_resources(const Resources& resources) {
  check_range("threads", resources.threads, 0, k_most_threads);
  check_range("parallel_compiles", resources.parallel_compiles, 0, k_most_threads);
  check_range("compile_threads", resources.compile_threads, 0, k_most_threads);
  if (!(resources.compile_limit_ms >= 0 && resources.compile_limit_ms <= k_most_ms)) {
    throw InvalidArgument(fmt::format("compile_limit_ms is {}; expected 0 (none) to {}",
                                      resources.compile_limit_ms, k_most_ms));
  }
  for (const auto& path : resources.toolkit_paths) check_path("a toolkit path", path);
}

}  // namespace

CompileOptions checked_options(CompileOptions options) {
  check_search(options.policy);
  check_values(options.policy.values, named_options());
  check_resources(options.resources);
  check_enum("verify", options.verify, VerifyMode::full);
  check_enum("compile", options.compile, CompileWhen::never);
  check_enum("the target's instruction set", options.target.isa(), HostIsa::generic);
  Resources& resources = options.resources;
  if (resources.parallel_compiles == 0) resources.parallel_compiles = usable_cpus();
  if (resources.threads == 0)
    resources.threads = default_threads(read_environment(), usable_cpus());
  return options;
}

void check_for_target(const Problem& problem, const Target& target) {
  backend_of(target).check(problem, target);
}

}  // namespace spjit
