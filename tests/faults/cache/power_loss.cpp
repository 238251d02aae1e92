#include "power_loss.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/spmm_testing.hpp"

namespace spjit::test {

namespace fs = std::filesystem;

namespace {

Inode inode_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? Inode{status.st_dev, status.st_ino} : Inode{};
}

/// The events that no sync of their inode came after.
std::vector<FileEvent> unsynced(const std::vector<FileEvent>& journal) {
  std::vector<FileEvent> left;
  for (const FileEvent& event : journal) {
    if (event.kind == FileEvent::Kind::synced) {
      std::erase_if(left, [&](const FileEvent& past) { return past.inode == event.inode; });
    } else {
      left.push_back(event);
    }
  }
  return left;
}

}  // namespace

void lose_power(const fs::path& root, const std::vector<FileEvent>& journal, PowerLoss loss) {
  std::vector<FileEvent> lost = unsynced(journal);
  std::set<Inode> emptied;
  std::set<std::pair<Inode, std::string>> gone;  // by directory: it may have been renamed since
  for (const FileEvent& event : lost) {
    if (event.kind == FileEvent::Kind::written) emptied.insert(event.inode);
    if (event.kind == FileEvent::Kind::created) {
      gone.emplace(event.inode, fs::path(event.to).filename());
    }
  }
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& item : fs::recursive_directory_iterator(root, none)) {
    if (item.is_regular_file()) files.push_back(item.path());
  }
  for (const fs::path& file : files) {
    if (emptied.contains(inode_of(file))) {
      testing_support::make_writable(file);
      fs::resize_file(file, 0);
    }
    const bool nameless = gone.contains({inode_of(file.parent_path()), file.filename()});
    if (loss == PowerLoss::content_and_names && nameless) fs::remove(file);
  }
  if (loss != PowerLoss::content_and_renames) return;
  std::ranges::reverse(lost);
  for (const FileEvent& event : lost) {
    if (event.kind == FileEvent::Kind::renamed) fs::rename(event.to, event.from, none);
  }
}

}  // namespace spjit::test
