#include "fault_testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <stdexcept>

#include "base/hash.hpp"
#include "matrix/random.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {

namespace fs = std::filesystem;
namespace support = spjit::testing_support;

namespace {

constexpr unsigned k_hanging_s = 300;
constexpr std::int64_t k_findings_shown = 20;

/// Up to 20 kB, of a length that is no multiple of anything.
std::vector<std::byte> made_up_bytes(std::int64_t number, std::uint64_t file) {
  RandomStream random(static_cast<std::uint64_t>(number) * 2 + file);
  std::vector<std::byte> bytes(random.below(20'000));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

nlohmann::json made_up_kernel(std::int64_t number) { return {{"made_up", number}}; }

std::vector<fs::path> listed(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(directory, error)) paths.push_back(item.path());
  std::ranges::sort(paths);
  return paths;
}

bool matches(const fs::path& path, const std::regex& pattern) {
  return std::regex_match(path.filename().native(), pattern);
}

/// Names, as docs/design/cache-format.md has them.
struct Grammar {
  std::regex shard{"[0-9a-f]{2}"};
  std::regex key{"[0-9a-f]{64}"};
  std::regex temporary{"[0-9]+-[0-9a-f]{16}"};
  std::regex damaged{"[0-9a-f]{64}-[0-9a-f]{16}"};
  std::regex unfinished_tag{R"(CACHEDIR\.TAG\.[0-9a-f]{16})"};
};

const Grammar& grammar() {
  static const Grammar the_grammar;
  return the_grammar;
}

std::string problem_of_entry(const CacheStore& store, const std::string& key) {
  const CacheLookup found = store.lookup(key);
  if (!found.entry) return fmt::format("entry {} is seen, but: {}", key, found.miss_reason);
  const nlohmann::json& kernel = found.entry->record.kernel;
  if (!kernel.contains("made_up")) return {};
  const auto number = kernel.at("made_up").get<std::int64_t>();
  return key == made_up_key(number) ? problem_of(found, number) : "entry under a wrong key";
}

void audit_shard(const CacheStore& store, const fs::path& shard, Audit& result) {
  for (const fs::path& entry : listed(shard)) {
    const std::string key = entry.filename();
    if (!matches(entry, grammar().key) || !key.starts_with(shard.filename().native())) {
      result.problem = "not in the grammar: " + entry.native();
      continue;
    }
    ++result.entries;
    result.problem = first_of({result.problem, problem_of_entry(store, key)});
  }
}

std::int64_t count_named(const fs::path& directory, const std::regex& name, Audit& result) {
  std::int64_t count = 0;
  for (const fs::path& path : listed(directory)) {
    ++count;
    if (!matches(path, name)) result.problem = "not in the grammar: " + path.native();
  }
  return count;
}

void make_old(const fs::path& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 14));
}

}  // namespace

std::int64_t sized(std::int64_t small, std::int64_t full) {
  const char* size = std::getenv("SPJIT_FAULTS");
  return size != nullptr && std::string_view(size) == "full" ? full : small;
}

Tally::~Tally() {
  std::string counts;
  for (const auto& [what, times] : counts_) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", times, what);
  }
  std::printf("fault test: %s: %s; %ld findings\n", name_.c_str(), counts.c_str(),
              static_cast<long>(findings_));
}

void Tally::check(const std::string& where, const std::string& what) {
  if (what.empty()) return;
  ++findings_;
  if (findings_ <= k_findings_shown) ADD_FAILURE() << where << ": " << what;
}

std::string ChildResult::problem() const {
  if (signal == SIGALRM) return "it hangs";
  if (signal != 0) return fmt::format("ended by signal {}", signal);
  return said;
}

Child::Child(const std::function<std::string()>& body) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  output_ = ends[0];
  if (pid_ > 0) {
    ::close(ends[1]);
    return;
  }
  ::alarm(k_hanging_s);
  std::string said;
  try {
    said = body();
  } catch (const std::exception& error) {
    said = fmt::format("threw: {}", error.what());
  }
  for (std::size_t done = 0; done < said.size();) {
    const ssize_t written = ::write(ends[1], said.data() + done, said.size() - done);
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  ::_exit(0);
}

Child::~Child() {
  if (output_ >= 0) ::close(output_);
  if (pid_ > 0) {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }
}

void Child::kill() const { ::kill(pid_, SIGKILL); }

ChildResult Child::wait() {
  ChildResult result;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(output_, buffer, sizeof buffer)) > 0;) {
    result.said.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

bool mount_alone(const fs::path& folder, const char* type, unsigned long flags,
                 const std::string& options) {
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(type, folder.c_str(), type, flags, options.c_str()) == 0;
}

std::string first_of(std::initializer_list<std::string> problems) {
  for (const std::string& problem : problems) {
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string made_up_key(std::int64_t number) { return KeyBuilder().field("made up", number).hex(); }

PublishResult publish_made_up(const CacheStore& store, std::int64_t number, EntrySync sync) {
  const std::vector<std::byte> code = made_up_bytes(number, 0);
  const std::vector<std::byte> text = made_up_bytes(number, 1);
  const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = code},
                                        {.name = "text.gz", .bytes = text}};
  return store.publish(made_up_key(number), files, made_up_kernel(number), {}, sync);
}

std::string problem_of(const CacheLookup& found, std::int64_t number) {
  if (!found.entry) return found.miss_reason;
  const bool same = std::ranges::equal(found.entry->file("kernel.o"), made_up_bytes(number, 0)) &&
                    std::ranges::equal(found.entry->file("text.gz"), made_up_bytes(number, 1)) &&
                    found.entry->record.kernel == made_up_kernel(number);
  return same ? "" : fmt::format("entry {} has wrong bytes", number);
}

std::string problem_of_hit(const CacheLookup& found, std::int64_t number) {
  if (!found.entry) return fmt::format("entry {} is lost: '{}'", number, found.miss_reason);
  return problem_of(found, number);
}

fs::path entry_path(const fs::path& root, std::string_view key) {
  return root / key.substr(0, 2) / key;
}

Audit audit(const fs::path& root) {
  Audit result;
  if (!fs::exists(root)) return result;
  try {
    const CacheStore store = open_store(root);
    for (const fs::path& path : listed(root)) {
      const fs::path name = path.filename();
      if (matches(path, grammar().shard)) {
        audit_shard(store, path, result);
      } else if (name == "tmp") {
        result.temporaries += count_named(path, grammar().temporary, result);
      } else if (name == "damaged") {
        result.damaged = count_named(path, grammar().damaged, result);
      } else if (matches(path, grammar().unfinished_tag)) {
        ++result.temporaries;
      } else if (name != "CACHEDIR.TAG") {
        result.problem = "not in the grammar: " + path.native();
      }
    }
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

std::string left_after_sweep(const fs::path& root) {
  for (const fs::path& path : listed(root)) {
    if (matches(path, grammar().unfinished_tag)) make_old(path);
  }
  for (const char* name : {"tmp", "damaged"}) {
    for (const fs::path& path : listed(root / name)) make_old(path);
  }
  const Audit after = audit(root);
  if (!after.problem.empty()) return after.problem;
  if (after.temporaries + after.damaged == 0) return {};
  return fmt::format("{} temporary and {} damaged directories are left for good", after.temporaries,
                     after.damaged);
}

KernelCases::KernelCases(int count) {
  const HostIsa isa = Target().isa();
  for (int i = 0; i < count; ++i) {
    const CsrMatrix matrix =
        support::random_matrix(8 + i % 5, 6 + i % 7, 0.5, static_cast<std::uint64_t>(i + 1));
    const std::vector<float> b = support::dense_values(matrix.cols * k_columns);
    cases_.push_back(
        {matrix, support::reference_product(matrix, isa, b.data(), k_columns, k_columns)});
  }
}

KernelCases::Outcome KernelCases::compile(const fs::path& root, std::int64_t number) const {
  ::setenv("SPJIT_CACHE_DIR", root.c_str(), 1);
  return compile(Compiler(), number);
}

KernelCases::Outcome KernelCases::compile(const Compiler& compiler, std::int64_t number) const {
  const Case& test = cases_.at(static_cast<std::size_t>(number));
  const Kernel kernel = compiler.compile({.a = test.matrix, .n = k_columns});
  const std::vector<float> b = support::dense_values(test.matrix.cols * k_columns);
  std::vector<float> c(test.expected.size(), -7.0F);
  kernel.run(b.data(), c.data());
  const bool right = support::same_bits(c, test.expected);
  return {.problem = right ? "" : fmt::format("kernel {} computes wrong values", number),
          .info = kernel.info()};
}

std::string KernelCases::problem_of_hit(const fs::path& root, std::int64_t number) const {
  const Outcome outcome = compile(root, number);
  if (!outcome.problem.empty()) return outcome.problem;
  if (outcome.info.from_cache) return {};
  return fmt::format("kernel {} is lost: '{}'", number, outcome.info.note);
}

}  // namespace spjit::test
