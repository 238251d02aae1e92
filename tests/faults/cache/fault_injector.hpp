#pragma once

/// @file
/// Makes the calls that a program does on files fail, stop half way or be its last: which, is
/// counted, so that a test can walk over all of them. Programs that link fault_injector.cpp have
/// the C library's functions replaced by ones that look here first.

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace spjit::test {

enum class Fault : std::uint8_t {
  none,         ///< calls are counted
  kill,         ///< SIGKILL instead of the call
  kill_midway,  ///< SIGKILL after it; a write writes half of its bytes before
  fail,         ///< the call does nothing and fails (but close() closes)
  fail_after,   ///< the call is done and then fails, as when an answer is lost on a network
  shorten,      ///< reads and writes transfer half of what was asked for; other calls do all
};

struct FaultPlan {
  Fault fault = Fault::none;
  std::int64_t at = 1;     ///< the call it hits, from 1
  int error = 0;           ///< errno of a failure
  bool lasting = false;    ///< hits that call and those after it
  bool room_only = false;  ///< hits only calls that need room on the disk; others are not counted
  std::string_view only = {};  ///< hits only calls of that name, a literal; empty: of all
  bool journal = false;        ///< notes what is changed and synced, see `journal()`
};

/// Which file or directory, as the kernel numbers them.
struct Inode {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const Inode&, const Inode&) = default;
};

/// One change of the disk, in the order in which a process made them.
struct FileEvent {
  enum class Kind : std::uint8_t {
    written,  ///< the content of a file changed
    created,  ///< directory `inode` got the file `to`
    renamed,  ///< directory `inode` got `to`, which was `from`
    synced,   ///< what happened to a file or directory is on the disk for good
  };
  Kind kind = Kind::written;
  Inode inode;
  std::string from;
  std::string to;
};

inline std::ostream& operator<<(std::ostream& stream, const FaultPlan& plan) {
  return stream << "errno " << plan.error
                << (plan.fault == Fault::fail_after ? ", though done" : "")
                << (plan.lasting ? ", lasting" : "");
}

/// Watches the calls on files below a folder, in this process and in children forked later. At most
/// one at a time in a process.
class FaultInjector {
 public:
  /// `root` is absolute; it need not exist.
  explicit FaultInjector(const std::filesystem::path& root);
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;
  ~FaultInjector();

  /// Starts counting at 0. For this process and its children.
  void arm(const FaultPlan& plan);
  /// Lets all calls pass.
  void disarm();

  /// Whether a call was hit since `arm()`, by whichever process.
  [[nodiscard]] bool hit() const;
  /// Its name ("rename"); empty if none was hit.
  [[nodiscard]] std::string name_of_hit() const;

  /// Operations since `arm()`, by whichever process, up to its end or a kill. Throws if there were
  /// more than there is room for.
  [[nodiscard]] std::vector<FileEvent> journal() const;

  /// Moves the clock of this process (not of its children), relative to the real one. Times that
  /// the kernel gives to files stay real.
  static void shift_clock(std::chrono::seconds shift);
};

}  // namespace spjit::test
