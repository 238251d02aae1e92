#pragma once

/// @file
/// The border of the C interface: no exception crosses it, and nothing that is given is trusted.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/function_ref.hpp"
#include "spjit.h"
#include "spjit/error.hpp"

namespace spjit::c {

/// Runs `body`: SPJIT_OK, or the status of what it threw, whose message this thread then has.
[[nodiscard]] int guarded(FunctionRef<void()> body) noexcept;

/// Throws InvalidArgument for a null pointer.
void require(const void* pointer, const char* name);

/// Throws InvalidArgument for a null pointer and an empty text: as a path that would be a default,
/// or an error of the system that names no file.
void require_path(const char* path, const char* name);

/// Sets `*result` to null; throws InvalidArgument for a null `result`.
template <class Handle>
Handle*& result_of(Handle** result, const char* name) {
  require(result, name);
  *result = nullptr;
  return *result;
}

/// Checks the members of a caller's struct that this version does not know: throws InvalidArgument
/// for one that is not zero. `known` and `least` are bytes of the struct now and in its first
/// version.
void check_struct_size(const void* given, const char* name, std::size_t known, std::size_t least);

/// A caller's struct, with members that its version of spjit.h lacks as 0. `least`: the bytes of
/// the struct's first version. Throws InvalidArgument for null and for a size that is none.
template <class Struct>
[[nodiscard]] Struct checked_struct(const Struct* given, const char* name,
                                    std::size_t least = sizeof(Struct)) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  check_struct_size(given, name, sizeof(Struct), least);
  Struct copy{};
  std::memcpy(&copy, given, std::min(given->struct_size, sizeof(Struct)));
  return copy;
}

/// A checked copy of options, which may be null: then all members are 0.
template <class Struct>
[[nodiscard]] Struct optional_struct(const Struct* given, const char* name,
                                     std::size_t least = sizeof(Struct)) {
  return given == nullptr ? Struct{} : checked_struct(given, name, least);
}

/// A member that is 0 or 1; throws InvalidArgument.
[[nodiscard]] bool checked_flag(std::int32_t value, const char* name);

/// `value` from `first` to `last`; throws InvalidArgument that lists `names`.
void check_enum(std::int32_t value, const char* name, std::int32_t last, const char* names);

/// Threads of a run.
[[nodiscard]] int checked_threads(std::int32_t threads);

}  // namespace spjit::c
