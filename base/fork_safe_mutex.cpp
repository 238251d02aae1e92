#include "base/fork_safe_mutex.hpp"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <vector>

namespace spjit {
namespace {

/// All that there are.
struct ForkSafeMutexes {
  std::mutex mutex;
  std::vector<ForkSafeMutex*> all;
};

/// Never destroyed: a program may fork while it ends.
ForkSafeMutexes& fork_safe_mutexes();

void lock_all() {
  ForkSafeMutexes& mutexes = fork_safe_mutexes();
  mutexes.mutex.lock();
  for (ForkSafeMutex* each : mutexes.all) each->lock();
}

void unlock_all() {
  ForkSafeMutexes& mutexes = fork_safe_mutexes();
  for (ForkSafeMutex* each : mutexes.all) each->unlock();
  mutexes.mutex.unlock();
}

ForkSafeMutexes& fork_safe_mutexes() {
  static ForkSafeMutexes* const mutexes = [] {
    const int error = pthread_atfork(lock_all, unlock_all, unlock_all);
    if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
    return new ForkSafeMutexes;
  }();
  return *mutexes;
}

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
  ForkSafeMutexes& mutexes = fork_safe_mutexes();
  const std::lock_guard lock(mutexes.mutex);
  mutexes.all.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  ForkSafeMutexes& mutexes = fork_safe_mutexes();
  const std::lock_guard lock(mutexes.mutex);
  std::erase(mutexes.all, this);
}

}  // namespace spjit
