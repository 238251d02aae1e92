#include "bindings/c/guard.hpp"

#include <new>
#include <string>

#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/version.hpp"

namespace spjit::c {
namespace {

/// Of one thread.
struct LastError {
  std::string message;
  std::string log;
  const char* shown = "";  ///< the message, or a text for which there was no memory
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

int fail(int status, const char* message, const std::string* log = nullptr) noexcept {
  LastError& error = last_error();
  error.log.clear();
  try {
    error.message = message;
    error.shown = error.message.c_str();
    if (log != nullptr) error.log = *log;
  } catch (const std::bad_alloc&) {
    error.shown = "out of memory";
  }
  return status;
}

/// The status of the exception that is being handled.
int status_of_current() noexcept {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    return fail(SPJIT_INVALID_ARGUMENT, error.what());
  } catch (const InvalidMatrix& error) {
    return fail(SPJIT_INVALID_MATRIX, error.what());
  } catch (const IoError& error) {
    return fail(SPJIT_IO_ERROR, error.what());
  } catch (const NotSupported& error) {
    return fail(SPJIT_NOT_SUPPORTED, error.what());
  } catch (const CompileFailed& error) {
    return fail(SPJIT_COMPILE_FAILED, error.what(), &error.log());
  } catch (const VerificationFailed& error) {
    return fail(SPJIT_VERIFICATION_FAILED, error.what());
  } catch (const Cancelled& error) {
    return fail(SPJIT_CANCELLED, error.what());
  } catch (const DeadlineExceeded& error) {
    return fail(SPJIT_DEADLINE_EXCEEDED, error.what());
  } catch (const DeviceError& error) {
    return fail(SPJIT_DEVICE_ERROR, error.what());
  } catch (const CacheError& error) {
    return fail(SPJIT_CACHE_ERROR, error.what());
  } catch (const NoMemory& error) {
    return fail(SPJIT_OUT_OF_MEMORY, error.what());
  } catch (const Error& error) {
    return fail(SPJIT_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(SPJIT_OUT_OF_MEMORY, "out of memory; use smaller matrices or fewer columns");
  } catch (const std::exception& error) {
    return fail(SPJIT_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(SPJIT_INTERNAL_ERROR, "an exception of unknown type");
  }
}

}  // namespace

int guarded(FunctionRef<void()> body) noexcept {
  try {
    body();
    return SPJIT_OK;
  } catch (...) {
    return status_of_current();
  }
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw InvalidArgument(fmt::format("{} is NULL", name));
}

void require_path(const char* path, const char* name) {
  require(path, name);
  if (*path == '\0') throw InvalidArgument(fmt::format("{} is empty; expected a path", name));
}

void check_struct_size(const void* given, const char* name, std::size_t known, std::size_t least) {
  require(given, name);
  constexpr std::size_t k_most = 4096;  // more is no size but garbage
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  if (size < least || size > k_most) {
    throw InvalidArgument(
        fmt::format("struct_size of {} is {}; expected sizeof({}), {}", name, size, name, known));
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size <= known || std::all_of(bytes + known, bytes + size, [](auto b) { return b == 0; })) {
    return;
  }
  throw InvalidArgument(
      fmt::format("struct_size of {} is {}, of which spjit " SPJIT_VERSION
                  " knows {} bytes; expected 0 in the others, which a later version of spjit.h has",
                  name, size, known));
}

bool checked_flag(std::int32_t value, const char* name) {
  if (value == 0 || value == 1) return value == 1;
  throw InvalidArgument(fmt::format("{} is {}; expected 0 or 1", name, value));
}

void check_enum(std::int32_t value, const char* name, std::int32_t last, const char* names) {
  if (value >= 0 && value <= last) return;
  throw InvalidArgument(fmt::format("{} is {}; expected 0 to {}: {}", name, value, last, names));
}

int checked_threads(std::int32_t threads) {
  if (threads == 0) return 1;
  if (threads == SPJIT_ALL_CPUS) return 0;
  if (threads > 0) return threads;
  throw InvalidArgument(
      fmt::format("threads is {}; expected a number of threads or SPJIT_ALL_CPUS (-1)", threads));
}

}  // namespace spjit::c

const char* spjit_last_error(void) { return spjit::c::last_error().shown; }

const char* spjit_last_error_log(void) { return spjit::c::last_error().log.c_str(); }

const char* spjit_version(void) { return SPJIT_VERSION; }

const char* spjit_status_name(int status) {
  switch (status) {
#define SPJIT_STATUS_NAME(name) \
  case name:                    \
    return #name
    SPJIT_STATUS_NAME(SPJIT_OK);
    SPJIT_STATUS_NAME(SPJIT_INVALID_ARGUMENT);
    SPJIT_STATUS_NAME(SPJIT_INVALID_MATRIX);
    SPJIT_STATUS_NAME(SPJIT_IO_ERROR);
    SPJIT_STATUS_NAME(SPJIT_NOT_SUPPORTED);
    SPJIT_STATUS_NAME(SPJIT_COMPILE_FAILED);
    SPJIT_STATUS_NAME(SPJIT_VERIFICATION_FAILED);
    SPJIT_STATUS_NAME(SPJIT_CANCELLED);
    SPJIT_STATUS_NAME(SPJIT_DEADLINE_EXCEEDED);
    SPJIT_STATUS_NAME(SPJIT_DEVICE_ERROR);
    SPJIT_STATUS_NAME(SPJIT_CACHE_ERROR);
    SPJIT_STATUS_NAME(SPJIT_OUT_OF_MEMORY);
    SPJIT_STATUS_NAME(SPJIT_ERROR);
    SPJIT_STATUS_NAME(SPJIT_INTERNAL_ERROR);
#undef SPJIT_STATUS_NAME
    default:
      return "unknown status";
  }
}
