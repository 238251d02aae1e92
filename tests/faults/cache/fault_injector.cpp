#include "fault_injector.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace spjit::test {
namespace {

constexpr std::size_t k_path_bytes = 512;
constexpr std::size_t k_notes = 2048;

/// A FileEvent in shared memory.
struct Note {
  std::atomic<bool> complete = false;
  FileEvent::Kind kind = FileEvent::Kind::written;
  Inode inode;
  std::array<char, k_path_bytes> from = {};
  std::array<char, k_path_bytes> to = {};
};

/// In memory shared with children: a killed one leaves here what it was doing.
struct SharedState {
  std::atomic<std::int64_t> calls = 0;
  std::atomic<const char*> hit = nullptr;  // a literal: the same address in every child
  std::atomic<std::size_t> notes = 0;
  std::array<Note, k_notes> journal;
};

constexpr std::size_t k_descriptors = 4096;

struct Injection {
  std::atomic<SharedState*> shared = nullptr;
  std::atomic<bool> armed = false;
  FaultPlan plan;
  std::array<char, k_path_bytes> root = {};
  std::array<std::atomic<bool>, k_descriptors> watched = {};  // by file descriptor
  std::atomic<std::int64_t> clock_shift_s = 0;
};

// The replaced functions have no argument that could carry it.
Injection& injection() {
  static Injection the_injection;
  return the_injection;
}

template <typename Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_watched(int fd) {
  return fd >= 0 && static_cast<std::size_t>(fd) < k_descriptors &&
         injection().watched.at(static_cast<std::size_t>(fd));
}

void watch(int fd, bool on) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < k_descriptors) {
    injection().watched.at(static_cast<std::size_t>(fd)) = on;
  }
}

bool is_watched(const char* path) {
  const std::string_view root = injection().root.data();
  return !root.empty() && std::string_view(path).starts_with(root);
}

bool is_watched(int directory, const char* path) {
  return is_watched(path) || (path[0] != '/' && is_watched(directory));
}

/// What happens to a call.
Fault judge(const char* name, bool watched, bool needs_room) {
  Injection& now = injection();
  if (!watched || !now.armed || (now.plan.room_only && !needs_room)) return Fault::none;
  if (!now.plan.only.empty() && now.plan.only != name) return Fault::none;
  SharedState& shared = *now.shared;
  const std::int64_t number = ++shared.calls;
  if (number < now.plan.at || (number > now.plan.at && !now.plan.lasting)) return Fault::none;
  const char* nothing = nullptr;
  if (now.plan.fault != Fault::none) shared.hit.compare_exchange_strong(nothing, name);
  if (now.plan.fault == Fault::kill) static_cast<void>(::raise(SIGKILL));
  return now.plan.fault;
}

template <typename Result>
Result failure() {
  errno = injection().plan.error;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return -1;
  }
}

/// Does `call` as `fault` says.
template <typename Call>
auto do_call(Fault fault, Call call) -> decltype(call()) {
  if (fault == Fault::fail) return failure<decltype(call())>();
  const auto result = call();
  if (fault == Fault::kill_midway) static_cast<void>(::raise(SIGKILL));
  if (fault == Fault::fail_after) return failure<decltype(call())>();
  return result;
}

std::size_t shortened(Fault fault, std::size_t bytes) {
  const bool half = fault == Fault::shorten || fault == Fault::kill_midway;
  return half && bytes > 1 ? bytes / 2 : bytes;
}

Inode inode_in(const struct stat& status) { return {status.st_dev, status.st_ino}; }

Inode inode_of(int fd) {
  static auto* const real = original<int(int, struct stat*)>("fstat");
  struct stat status {};
  return real(fd, &status) == 0 ? inode_in(status) : Inode{};
}

/// The directory that holds `path`.
Inode parent_of(const char* path) {
  static auto* const real = original<int(const char*, struct stat*)>("stat");
  const std::string_view text = path;
  const std::string parent(text.substr(0, text.rfind('/')));
  struct stat status {};
  return real(parent.c_str(), &status) == 0 ? inode_in(status) : Inode{};
}

bool is_journaled(bool watched) { return watched && injection().armed && injection().plan.journal; }

void note(FileEvent::Kind kind, const Inode& inode, const char* from = "", const char* to = "") {
  SharedState& shared = *injection().shared;
  const std::size_t number = shared.notes++;
  if (number >= k_notes) return;  // journal() tells
  Note& now = shared.journal.at(number);
  now.kind = kind;
  now.inode = inode;
  std::snprintf(now.from.data(), now.from.size(), "%s", from);
  std::snprintf(now.to.data(), now.to.size(), "%s", to);
  now.complete = true;
}

/// A call that is done, with what it changes noted before anything is made of its result.
template <typename Call, typename Done>
auto noted(bool watched, Call call, Done done) {
  return [=] {
    const auto result = call();
    if (result >= 0 && is_journaled(watched)) {
      const int error = errno;
      done(result);
      errno = error;
    }
    return result;
  };
}

/// open() and openat() under all their names.
template <typename Call>
int opened(const char* name, bool watched, int flags, const char* path, Call call) {
  const Fault fault = judge(name, watched, (flags & O_CREAT) != 0);
  const int fd = do_call(fault, noted(watched, call, [flags, path](int made) {
                           if ((flags & O_CREAT) == 0 || path[0] != '/') return;
                           note(FileEvent::Kind::written, inode_of(made));
                           note(FileEvent::Kind::created, parent_of(path), "", path);
                         }));
  if (fd >= 0) watch(fd, watched);
  return fd;
}

}  // namespace

FaultInjector::FaultInjector(const std::filesystem::path& root) {
  void* memory = ::mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || root.native().size() >= injection().root.size()) {
    throw std::runtime_error("cannot watch " + root.native());
  }
  std::memcpy(injection().root.data(), root.c_str(), root.native().size() + 1);
  injection().shared = new (memory) SharedState;
}

FaultInjector::~FaultInjector() {
  disarm();
  injection().root.front() = '\0';
  ::munmap(injection().shared.exchange(nullptr), sizeof(SharedState));
}

void FaultInjector::arm(const FaultPlan& plan) {
  Injection& now = injection();
  now.plan = plan;
  now.shared.load()->calls = 0;
  now.shared.load()->hit = nullptr;
  now.shared.load()->notes = 0;
  for (Note& old : now.shared.load()->journal) {
    if (!old.complete) break;
    old.complete = false;
  }
  now.armed = true;
}

void FaultInjector::disarm() { injection().armed = false; }

bool FaultInjector::hit() const { return injection().shared.load()->hit != nullptr; }

std::string FaultInjector::name_of_hit() const {
  const char* name = injection().shared.load()->hit;
  return name == nullptr ? "" : name;
}

std::vector<FileEvent> FaultInjector::journal() const {
  const SharedState& shared = *injection().shared;
  if (shared.notes > k_notes) throw std::runtime_error("the journal of changes is full");
  std::vector<FileEvent> events;
  for (const Note& now : std::span(shared.journal).first(shared.notes)) {
    // A killed process may have left the last one half written: nothing hung on it yet.
    if (!now.complete) continue;
    events.push_back({now.kind, now.inode, now.from.data(), now.to.data()});
  }
  return events;
}

void FaultInjector::shift_clock(std::chrono::seconds shift) {
  injection().clock_shift_s = shift.count();
}

}  // namespace spjit::test

// The functions of the C library that the cache and libstdc++'s <filesystem> call. The exception
// specifications are those of glibc's headers.

using spjit::test::Fault;
using spjit::test::FileEvent;

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = spjit::test::original<int(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return spjit::test::opened("open", spjit::test::is_watched(path), flags, path,
                             [&] { return real(path, flags, mode); });
}

int openat(int directory, const char* path, int flags, ...) {
  static auto* const real = spjit::test::original<int(int, const char*, int, ...)>("openat");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return spjit::test::opened("openat", spjit::test::is_watched(directory, path), flags, path,
                             [&] { return real(directory, path, flags, mode); });
}

int close(int fd) {
  static auto* const real = spjit::test::original<int(int)>("close");
  const Fault fault = spjit::test::judge("close", spjit::test::is_watched(fd), false);
  spjit::test::watch(fd, false);
  return spjit::test::do_call(fault == Fault::fail ? Fault::fail_after : fault,
                              [&] { return real(fd); });
}

ssize_t read(int fd, void* to, size_t bytes) {
  static auto* const real = spjit::test::original<ssize_t(int, void*, size_t)>("read");
  const Fault fault = spjit::test::judge("read", spjit::test::is_watched(fd), false);
  return spjit::test::do_call(fault,
                              [&] { return real(fd, to, spjit::test::shortened(fault, bytes)); });
}

// NOLINTNEXTLINE(readability-function-size): the parameters are POSIX's
ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  static auto* const real = spjit::test::original<ssize_t(int, void*, size_t, off_t)>("pread");
  const Fault fault = spjit::test::judge("pread", spjit::test::is_watched(fd), false);
  return spjit::test::do_call(
      fault, [&] { return real(fd, to, spjit::test::shortened(fault, bytes), at); });
}

ssize_t write(int fd, const void* from, size_t bytes) {
  static auto* const real = spjit::test::original<ssize_t(int, const void*, size_t)>("write");
  const bool watched = spjit::test::is_watched(fd);
  const Fault fault = spjit::test::judge("write", watched, true);
  return spjit::test::do_call(
      fault, spjit::test::noted(
                 watched, [=] { return real(fd, from, spjit::test::shortened(fault, bytes)); },
                 [fd](ssize_t) {
                   spjit::test::note(FileEvent::Kind::written, spjit::test::inode_of(fd));
                 }));
}

// NOLINTNEXTLINE(readability-function-size): the parameters are POSIX's
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
  static auto* const real =
      spjit::test::original<void*(void*, size_t, int, int, int, off_t)>("mmap");
  const Fault fault = spjit::test::judge("mmap", spjit::test::is_watched(fd), false);
  void* const result =
      spjit::test::do_call(fault, [&] { return real(address, bytes, protection, flags, fd, at); });
  return result == nullptr ? MAP_FAILED : result;
}

int fsync(int fd) {
  static auto* const real = spjit::test::original<int(int)>("fsync");
  const bool watched = spjit::test::is_watched(fd);
  const Fault fault = spjit::test::judge("fsync", watched, true);
  return spjit::test::do_call(
      fault,
      spjit::test::noted(
          watched, [fd] { return real(fd); },
          [fd](int) { spjit::test::note(FileEvent::Kind::synced, spjit::test::inode_of(fd)); }));
}

int sync_file_range(int fd, off64_t from, off64_t bytes, unsigned flags) {
  static auto* const real =
      spjit::test::original<int(int, off64_t, off64_t, unsigned)>("sync_file_range");
  const Fault fault = spjit::test::judge("sync_file_range", spjit::test::is_watched(fd), true);
  return spjit::test::do_call(fault, [&] { return real(fd, from, bytes, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = spjit::test::original<int(const char*, mode_t)>("mkdir");
  const Fault fault = spjit::test::judge("mkdir", spjit::test::is_watched(path), true);
  return spjit::test::do_call(fault, [&] { return real(path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = spjit::test::original<int(const char*, const char*)>("rename");
  const bool watched = spjit::test::is_watched(from) || spjit::test::is_watched(to);
  const Fault fault = spjit::test::judge("rename", watched, true);
  return spjit::test::do_call(fault, spjit::test::noted(
                                         watched, [=] { return real(from, to); },
                                         [=](int) {
                                           spjit::test::note(FileEvent::Kind::renamed,
                                                             spjit::test::parent_of(to), from, to);
                                         }));
}

int stat(const char* path, struct stat* status) noexcept {
  static auto* const real = spjit::test::original<int(const char*, struct stat*)>("stat");
  const Fault fault = spjit::test::judge("stat", spjit::test::is_watched(path), false);
  return spjit::test::do_call(fault, [&] { return real(path, status); });
}

int lstat(const char* path, struct stat* status) noexcept {
  static auto* const real = spjit::test::original<int(const char*, struct stat*)>("lstat");
  const Fault fault = spjit::test::judge("lstat", spjit::test::is_watched(path), false);
  return spjit::test::do_call(fault, [&] { return real(path, status); });
}

int fstat(int fd, struct stat* status) noexcept {
  static auto* const real = spjit::test::original<int(int, struct stat*)>("fstat");
  const Fault fault = spjit::test::judge("fstat", spjit::test::is_watched(fd), false);
  return spjit::test::do_call(fault, [&] { return real(fd, status); });
}

int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
  static auto* const real =
      spjit::test::original<int(int, const char*, struct stat*, int)>("fstatat");
  const bool watched = spjit::test::is_watched(directory, path);
  const Fault fault = spjit::test::judge("fstatat", watched, false);
  return spjit::test::do_call(fault, [&] { return real(directory, path, status, flags); });
}

int futimens(int fd, const struct timespec* times) noexcept {
  static auto* const real = spjit::test::original<int(int, const struct timespec*)>("futimens");
  const Fault fault = spjit::test::judge("futimens", spjit::test::is_watched(fd), false);
  return spjit::test::do_call(fault, [&] { return real(fd, times); });
}

int utimensat(int directory, const char* path, const struct timespec* times, int flags) noexcept {
  static auto* const real =
      spjit::test::original<int(int, const char*, const struct timespec*, int)>("utimensat");
  const bool watched = spjit::test::is_watched(directory, path);
  const Fault fault = spjit::test::judge("utimensat", watched, false);
  return spjit::test::do_call(fault, [&] { return real(directory, path, times, flags); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  static auto* const real = spjit::test::original<int(int, const char*, int)>("unlinkat");
  const bool watched = spjit::test::is_watched(directory, path);
  const Fault fault = spjit::test::judge("unlinkat", watched, false);
  return spjit::test::do_call(fault, [&] { return real(directory, path, flags); });
}

int remove(const char* path) noexcept {
  static auto* const real = spjit::test::original<int(const char*)>("remove");
  const Fault fault = spjit::test::judge("remove", spjit::test::is_watched(path), false);
  return spjit::test::do_call(fault, [&] { return real(path); });
}

DIR* fdopendir(int fd) {
  static auto* const real = spjit::test::original<DIR*(int)>("fdopendir");
  const Fault fault = spjit::test::judge("fdopendir", spjit::test::is_watched(fd), false);
  return spjit::test::do_call(fault, [&] { return real(fd); });
}

struct dirent* readdir(DIR* directory) {
  static auto* const real = spjit::test::original<struct dirent*(DIR*)>("readdir");
  const bool watched = spjit::test::is_watched(::dirfd(directory));
  const Fault fault = spjit::test::judge("readdir", watched, false);
  return spjit::test::do_call(fault, [&] { return real(directory); });
}

int closedir(DIR* directory) {
  static auto* const real = spjit::test::original<int(DIR*)>("closedir");
  const int fd = ::dirfd(directory);
  const Fault fault = spjit::test::judge("closedir", spjit::test::is_watched(fd), false);
  spjit::test::watch(fd, false);
  return spjit::test::do_call(fault == Fault::fail ? Fault::fail_after : fault,
                              [&] { return real(directory); });
}

int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  static auto* const real =
      spjit::test::original<int(clockid_t, struct timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += spjit::test::injection().clock_shift_s;
  return result;
}

time_t time(time_t* result) noexcept {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval* time, void* zone) noexcept {
  static auto* const real = spjit::test::original<int(struct timeval*, void*)>("gettimeofday");
  const int result = real(time, zone);
  time->tv_sec += spjit::test::injection().clock_shift_s;
  return result;
}

}  // extern "C"
