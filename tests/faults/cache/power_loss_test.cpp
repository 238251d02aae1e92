/// @file
/// Power that fails while a cache is used: what was not synced is lost.

#include "power_loss.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "operations.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryDirectory;

/// Those that make entries; a removal that is undone brings back what is half removed, and that is
/// found damaged.
bool publishes(const Operation& operation) {
  return operation.missing && (operation.starts_empty || !operation.keeps.empty());
}

/// What is wrong with the entries there, the one that was damaged before left out.
std::string torn_entries(const fs::path& root) {
  if (!fs::exists(root)) return {};
  try {
    for (const CacheListing& entry : open_store(root).verify().damaged) {
      if (entry.key != made_up_key(k_damaged)) return "torn: " + entry.problem;
    }
  } catch (const Error& error) {
    return fmt::format("the cache does not work any more: {}", error.what());
  }
  return {};
}

/// The power fails before each call of an operation, and after its end.
void walk_calls(const OperationWalk& walk, const Operation& operation, PowerLoss loss,
                Tally& tally) {
  for (std::int64_t at = 1;; at += sized(3, 1)) {
    const Trial trial = walk.run(operation, {.fault = Fault::kill, .at = at, .journal = true});
    const std::string where =
        fmt::format("{}, power lost at call {} ({})", operation.name, at, trial.call);
    const bool ended = trial.call.empty();

    lose_power(walk.root(), trial.journal, loss);

    tally.count("losses");
    tally.check(where, torn_entries(walk.root()));
    if (ended && operation.missing && loss != PowerLoss::content_and_renames) {
      tally.check(where, operation.missing(walk.root()));
    }
    tally.check(where, walk.aftermath(operation).problem);
    if (ended) return;
  }
}

class CachePowerLoss : public testing::TestWithParam<PowerLoss> {};

TEST_P(CachePowerLoss, LeavesWholeEntriesOrNone) {
  Tally tally("power lost before every call, with " + testing::PrintToString(GetParam()));
  const OperationWalk walk;
  for (const Operation& operation : walk.all()) {
    if (GetParam() == PowerLoss::content_and_renames && !publishes(operation)) continue;

    walk_calls(walk, operation, GetParam(), tally);

    tally.count("operations");
  }
}

/// A copy of what a server has is not synced. A look-up finds it whole, or damaged and sets it
/// aside; then it can be published again.
TEST_P(CachePowerLoss, TearsAnEntryThatIsNotSyncedAndTheNextLookUpFindsThat) {
  const TemporaryDirectory folder;
  const fs::path root = folder.path() / "cache";
  publish_made_up(open_store(root), k_bystander);
  FaultInjector injector(root);
  injector.arm({.journal = true});
  publish_made_up(open_store(root), k_new, EntrySync::no);
  injector.disarm();

  lose_power(root, injector.journal(), GetParam());

  const CacheStore store = open_store(root);
  EXPECT_EQ(problem_of_hit(store.lookup(made_up_key(k_bystander)), k_bystander), "");
  const CacheLookup torn = store.lookup(made_up_key(k_new));
  EXPECT_FALSE(torn.entry);
  EXPECT_EQ(torn.miss_reason.empty(), GetParam() == PowerLoss::content_and_renames);
  EXPECT_EQ(publish_made_up(store, k_new), PublishResult::published);
  EXPECT_EQ(problem_of_hit(store.lookup(made_up_key(k_new)), k_new), "");
}

INSTANTIATE_TEST_SUITE_P(Losses, CachePowerLoss,
                         testing::Values(PowerLoss::content, PowerLoss::content_and_names,
                                         PowerLoss::content_and_renames));

/// The losses themselves, on files that are synced or not.
class LosePower : public testing::Test {
 protected:
  LosePower() : injector_(root()) {
    fs::create_directory(root());
    injector_.arm({.journal = true});
  }

  [[nodiscard]] fs::path root() const { return folder_.path() / "root"; }

  void write(const std::string& name, bool sync) {
    const int file = ::open((root() / name).c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(::write(file, "text", 4), 4);
    if (sync) {
      ASSERT_EQ(::fsync(file), 0);
    }
    ::close(file);
  }
  void sync_root() {
    const int directory = ::open(root().c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(::fsync(directory), 0);
    ::close(directory);
  }
  void lose(PowerLoss loss) {
    injector_.disarm();
    lose_power(root(), injector_.journal(), loss);
  }
  /// What the file holds, or "gone".
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(root() / name);
    if (!file) return "gone";
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  TemporaryDirectory folder_;
  FaultInjector injector_;
};

TEST_F(LosePower, EmptiesFilesThatWereNotSynced) {
  write("synced", true);
  write("not", false);

  lose(PowerLoss::content);

  EXPECT_EQ(content("synced"), "text");
  EXPECT_EQ(content("not"), "");
}

TEST_F(LosePower, EmptiesFilesThatWereWrittenAfterTheyWereSynced) {
  write("file", true);
  write("file", false);

  lose(PowerLoss::content);

  EXPECT_EQ(content("file"), "");
}

TEST_F(LosePower, TakesFilesFromDirectoriesThatWereNotSynced) {
  write("before", true);
  sync_root();
  write("after", true);

  lose(PowerLoss::content_and_names);

  EXPECT_EQ(content("before"), "text");
  EXPECT_EQ(content("after"), "gone");
}

TEST_F(LosePower, UndoesRenamesInDirectoriesThatWereNotSynced) {
  write("first", true);
  write("second", true);
  ASSERT_EQ(::rename((root() / "first").c_str(), (root() / "kept").c_str()), 0);
  sync_root();
  ASSERT_EQ(::rename((root() / "second").c_str(), (root() / "undone").c_str()), 0);

  lose(PowerLoss::content_and_renames);

  EXPECT_EQ(content("kept"), "text");
  EXPECT_EQ(content("second"), "text");
  EXPECT_EQ(content("undone"), "gone");
}

}  // namespace
}  // namespace spjit::test
