#include "operations.hpp"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <fstream>
#include <utility>

#include "spjit/error.hpp"

namespace spjit::test {

namespace fs = std::filesystem;

namespace {

/// `body` returns what is wrong.
std::function<OperationResult(const fs::path&)> guarded(
    std::function<std::string(const fs::path&)> body) {
  return [body = std::move(body)](const fs::path& root) -> OperationResult {
    try {
      return {.problem = body(root), .excuse = {}};
    } catch (const CacheError& error) {
      const std::string what = error.what();
      const bool one_line = !what.empty() && what.find('\n') == std::string::npos;
      return {.problem = one_line ? "" : "the error has not one line: " + what, .excuse = what};
    } catch (const std::exception& error) {
      return {.problem = fmt::format("threw no CacheError: {}", error.what()), .excuse = {}};
    }
  };
}

std::vector<std::int64_t> kept(bool starts_empty) {
  return starts_empty ? std::vector<std::int64_t>() : std::vector{k_subject, k_bystander};
}

Operation publishing(std::string name, bool starts_empty, std::int64_t number) {
  return {.name = std::move(name),
          .starts_empty = starts_empty,
          .keeps = kept(starts_empty),
          .run = guarded([number](const fs::path& root) {
            publish_made_up(open_store(root), number);
            return std::string();
          }),
          .missing = [number](const fs::path& root) {
            return problem_of_hit(open_store(root).lookup(made_up_key(number)), number);
          }};
}

Operation looking_up(std::string name, std::int64_t number) {
  return {.name = std::move(name),
          .keeps = kept(false),
          .run = guarded([number](const fs::path& root) {
            const CacheStore store = open_store(root);
            const CacheLookup found = store.lookup(made_up_key(number));
            return found.entry ? problem_of(found, number) : std::string();
          })};
}

Operation compiling(std::string name, bool starts_empty, std::int64_t number,
                    const KernelCases& kernels) {
  return {.name = std::move(name),
          .starts_empty = starts_empty,
          .keeps = kept(starts_empty),
          .run = [number, &kernels](const fs::path& root) -> OperationResult {
            try {
              const KernelCases::Outcome outcome = kernels.compile(root, number);
              return {.problem = outcome.problem, .excuse = outcome.info.note};
            } catch (const std::exception& error) {
              return {.problem = fmt::format("compiling threw: {}", error.what()), .excuse = {}};
            }
          },
          .missing = [number, &kernels](
                         const fs::path& root) { return kernels.problem_of_hit(root, number); }};
}

/// So that pruning may remove them.
void make_unused(const fs::path& root) {
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    if (item.path().filename() != "record.json") continue;
    fs::last_write_time(item.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
}

void leave_long_ago(const fs::path& path) {
  fs::create_directories(path);
  std::ofstream(path / "kernel.o") << "half a kern";
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 14));
}

}  // namespace

void make_template(const fs::path& root, const KernelCases& kernels) {
  const CacheStore store = open_store(root);
  for (const std::int64_t number : {k_subject, k_bystander, k_damaged}) {
    publish_made_up(store, number);
  }
  static_cast<void>(kernels.compile(root, 0));
  const fs::path damaged = entry_path(root, made_up_key(k_damaged)) / "kernel.o";
  testing_support::make_writable(damaged);
  std::ofstream(damaged) << "damaged";
}

std::vector<Operation> operations(const KernelCases& kernels) {
  std::vector<Operation> all;
  all.push_back(publishing("first publication", true, k_new));
  all.push_back(publishing("publication", false, k_new));
  all.push_back(publishing("publication of what is there", false, k_subject));
  all.push_back(looking_up("lookup", k_subject));
  all.push_back(looking_up("lookup of a damaged entry", k_damaged));
  all.push_back(compiling("first compilation", true, 1, kernels));
  all.push_back(compiling("compilation", false, 1, kernels));
  all.push_back(compiling("compilation of what is there", false, 0, kernels));
  all.push_back({.name = "removal",
                 .keeps = {k_bystander},
                 .run = guarded([](const fs::path& root) {
                   static_cast<void>(open_store(root).remove(made_up_key(k_subject)));
                   return std::string();
                 })});
  all.push_back({.name = "clearing",
                 .run = guarded([](const fs::path& root) {
                   static_cast<void>(open_store(root).clear());
                   return std::string();
                 }),
                 .missing = [](const fs::path& root) {
                   return open_store(root).list().empty() ? "" : "entries are left";
                 }});
  all.push_back({.name = "pruning",
                 .run = guarded([](const fs::path& root) {
                   const CacheStore store = open_store(root);
                   static_cast<void>(store.prune(
                       {.unused_for = std::chrono::seconds(0), .other_versions = true}));
                   return std::string();
                 }),
                 .missing = [](const fs::path& root) {
                   return open_store(root).list().empty() ? "" : "entries are left";
                 }});
  all.push_back({.name = "verifying",
                 .keeps = kept(false),
                 .reads = {k_subject, k_bystander},
                 .run = guarded([](const fs::path& root) {
                   const CacheVerifyResult result = open_store(root).verify();
                   return result.entries == 4 && !result.damaged.empty()
                              ? std::string()
                              : fmt::format("{} entries, {} damaged", result.entries,
                                            result.damaged.size());
                 })});
  all.push_back({.name = "opening and listing",
                 .keeps = kept(false),
                 .run = guarded([](const fs::path& root) {
                   static_cast<void>(open_store(root).list());
                   return std::string();
                 })});
  return all;
}

OperationWalk::OperationWalk()
    : template_(scratch_.path() / "template"),
      root_(scratch_.path() / "cache"),
      kernels_(2),
      operations_(operations(kernels_)) {
  make_template(template_, kernels_);
}

Trial OperationWalk::run(const Operation& operation, const FaultPlan& plan) const {
  fs::remove_all(root_);
  if (!operation.starts_empty) {
    fs::copy(template_, root_, fs::copy_options::recursive);
    make_unused(root_);
    leave_long_ago(root_ / "tmp" / "1-0123456789abcdef");
    leave_long_ago(root_ / "damaged" / (made_up_key(k_damaged) + "-0123456789abcdef"));
  }
  FaultInjector injector(root_);
  injector.arm(plan);
  const ChildResult child = in_child([&] {
    const OperationResult result = operation.run(root_);
    return result.problem + '\n' + result.excuse;
  });
  injector.disarm();
  Trial trial{.killed = child.signal == SIGKILL,
              .result = {},
              .call = injector.name_of_hit(),
              .journal = injector.journal()};
  const std::size_t end = child.said.rfind('\n');
  if (child.signal == 0 && end != std::string::npos) {
    trial.result = {.problem = child.said.substr(0, end), .excuse = child.said.substr(end + 1)};
  } else if (!trial.killed) {
    trial.result.problem = "no answer: " + child.problem();
  }
  return trial;
}

Aftermath OperationWalk::aftermath(const Operation& operation,
                                   const std::vector<std::int64_t>& keeps) const {
  try {
    const CacheStore store = open_store(root_);
    // Moves the damaged entry away, if nobody has yet.
    if (store.lookup(made_up_key(k_damaged)).entry) return {"a damaged entry was believed"};
    const Audit now = audit(root_);
    Aftermath result{.problem = now.problem, .temporaries = now.temporaries};
    for (const std::int64_t number : keeps) {
      const CacheLookup found = store.lookup(made_up_key(number));
      result.problem = first_of({result.problem, problem_of_hit(found, number)});
    }
    // Kernel 0 goes where the subject may go.
    if (keeps == operation.keeps && keeps.size() == 2) {
      result.problem = first_of({result.problem, kernels_.problem_of_hit(root_, 0)});
    }
    for (const std::int64_t number : {k_damaged, k_new}) {
      publish_made_up(store, number);
      const CacheLookup found = store.lookup(made_up_key(number));
      result.problem = first_of({result.problem, problem_of_hit(found, number)});
    }
    static_cast<void>(kernels_.compile(root_, 1));
    result.problem = first_of({result.problem, kernels_.problem_of_hit(root_, 1)});
    return result;
  } catch (const Error& error) {
    return {fmt::format("the cache does not work any more: {}", error.what())};
  }
}

}  // namespace spjit::test
