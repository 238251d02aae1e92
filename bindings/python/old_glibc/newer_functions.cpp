// What Debian's static libraries and g++'s headers call and an old glibc does not have, by what it
// has. They are of this library alone: it exports none of them.

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

// On x86-64 the kernel's struct stat is glibc's, and stat64 is the same.
int stat_at(int directory, const char* path, void* status, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, path, status, flags));
}

constexpr std::int64_t k_second_ns = 1'000'000'000;

std::int64_t to_ns(const timespec& time) { return time.tv_sec * k_second_ns + time.tv_nsec; }

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return to_ns(now);
}

}  // namespace

extern "C" {

// Since glibc 2.33 these are functions; before, headers had them call __xstat.
int stat(const char* path, struct stat* status) noexcept {
  return stat_at(AT_FDCWD, path, status, 0);
}
int stat64(const char* path, struct stat64* status) noexcept {
  return stat_at(AT_FDCWD, path, status, 0);
}
int lstat(const char* path, struct stat* status) noexcept {
  return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int lstat64(const char* path, struct stat64* status) noexcept {
  return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int fstat(int file, struct stat* status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, file, status));
}
int fstat64(int file, struct stat64* status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, file, status));
}
int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
  return stat_at(directory, path, status, flags);
}

// Since glibc 2.32: whether libstdc++ may count references without atomic instructions. Never.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): glibc's
char __libc_single_threaded = 0;

// Since glibc 2.36, for libzip and std::random_device.
void arc4random_buf(void* bytes, size_t count) noexcept {
  auto* next = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const ssize_t got = getrandom(next, count, 0);
    if (got >= 0) {
      next += got;
      count -= static_cast<size_t>(got);
    } else if (errno != EINTR) {
      std::abort();  // it has no way to fail
    }
  }
}
std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

// Since glibc 2.30, for std::condition_variable and the steady clock. Any wait may end early; this
// one does after a second, so that setting the system's clock does not make it longer.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  const std::int64_t left = std::max<std::int64_t>(to_ns(*deadline) - now_ns(clock), 0);
  const std::int64_t until = now_ns(CLOCK_REALTIME) + std::min(left, k_second_ns);
  const timespec until_time{.tv_sec = until / k_second_ns, .tv_nsec = until % k_second_ns};
  const int result = pthread_cond_timedwait(condition, mutex, &until_time);
  return result == ETIMEDOUT && now_ns(clock) < to_ns(*deadline) ? 0 : result;
}

}  // extern "C"
