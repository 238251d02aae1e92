#include "base/identifiers.hpp"

#include <algorithm>
#include <array>

namespace spjit {
namespace {

// Ascending. [lex.key] and [lex.digraph] of C++20.
constexpr auto k_reserved = std::to_array<std::string_view>(
    {"alignas",      "alignof",      "and",           "and_eq",
     "asm",          "auto",         "bitand",        "bitor",
     "bool",         "break",        "case",          "catch",
     "char",         "char16_t",     "char32_t",      "char8_t",
     "class",        "co_await",     "co_return",     "co_yield",
     "compl",        "concept",      "const",         "const_cast",
     "consteval",    "constexpr",    "constinit",     "continue",
     "decltype",     "default",      "delete",        "do",
     "double",       "dynamic_cast", "else",          "enum",
     "explicit",     "export",       "extern",        "false",
     "float",        "for",          "friend",        "goto",
     "if",           "inline",       "int",           "long",
     "main",         "mutable",      "namespace",     "new",
     "noexcept",     "not",          "not_eq",        "nullptr",
     "operator",     "or",           "or_eq",         "private",
     "protected",    "public",       "register",      "reinterpret_cast",
     "requires",     "return",       "short",         "signed",
     "sizeof",       "static",       "static_assert", "static_cast",
     "struct",       "switch",       "template",      "this",
     "thread_local", "throw",        "true",          "try",
     "typedef",      "typeid",       "typename",      "union",
     "unsigned",     "using",        "virtual",       "void",
     "volatile",     "wchar_t",      "while",         "xor",
     "xor_eq"});
static_assert(std::ranges::is_sorted(k_reserved));

// Ascending. What the headers that an emitted header includes put into the global namespace in a
// way that no function `name(int)` can stand beside it: namespaces, types, variables, functions of
// an int, and the common macros.
// clang-format off
constexpr auto k_taken = std::to_array<std::string_view>({
    "BIG_ENDIAN", "BUFSIZ", "BYTE_ORDER", "CHAR_BIT", "CHAR_MAX", "CHAR_MIN", "DBL_EPSILON",
    "DBL_MAX", "DBL_MIN", "EACCES", "EAGAIN", "EBADF", "EDOM", "EEXIST", "EILSEQ", "EINTR",
    "EINVAL", "EIO", "ENOENT", "ENOMEM", "EOF", "EPERM", "ERANGE", "EXIT_FAILURE",
    "EXIT_SUCCESS", "FILE", "FLT_EPSILON", "FLT_MAX", "FLT_MIN", "HUGE_VAL", "INFINITY",
    "INT16_MAX", "INT16_MIN", "INT32_MAX", "INT32_MIN", "INT64_MAX", "INT64_MIN", "INT8_MAX",
    "INT8_MIN", "INTMAX_MAX", "INTMAX_MIN", "INTPTR_MAX", "INTPTR_MIN", "INT_MAX", "INT_MIN",
    "LITTLE_ENDIAN", "LLONG_MAX", "LLONG_MIN", "LONG_MAX", "LONG_MIN", "NAME_MAX", "NAN",
    "NULL", "PATH_MAX", "PTRDIFF_MAX", "PTRDIFF_MIN", "RAND_MAX", "SCHAR_MAX", "SCHAR_MIN",
    "SEEK_CUR", "SEEK_END", "SEEK_SET", "SHRT_MAX", "SHRT_MIN", "SIZE_MAX", "SPJIT_EXPORT",
    "SSIZE_MAX", "UCHAR_MAX", "UINT16_MAX", "UINT32_MAX", "UINT64_MAX", "UINT8_MAX",
    "UINTMAX_MAX", "UINTPTR_MAX", "UINT_MAX", "ULLONG_MAX", "ULONG_MAX", "USHRT_MAX",
    "WCHAR_MAX", "WCHAR_MIN", "WINT_MAX", "WINT_MIN", "abort", "abs", "alloca", "assert",
    "blkcnt64_t", "blkcnt_t", "blksize_t", "btowc", "caddr_t", "clock_t", "clockid_t", "close",
    "closefrom", "comparison_fn_t", "cookie_close_function_t", "cookie_io_functions_t",
    "cookie_read_function_t", "cookie_seek_function_t", "cookie_write_function_t", "cpu_set_t",
    "daddr_t", "daylight", "dev_t", "div_t", "double_t", "dup", "dysize", "environ", "errno",
    "error_t", "exit", "fchdir", "fd_mask", "fd_set", "fdatasync", "ffs", "float_t", "fpos64_t",
    "fpos_t", "fsblkcnt64_t", "fsblkcnt_t", "fsfilcnt64_t", "fsfilcnt_t", "fsid_t", "fsync",
    "getdate_err", "getpgid", "getsid", "gid_t", "grantpt", "id_t", "ino64_t", "ino_t",
    "int16_t", "int32_t", "int64_t", "int8_t", "int_fast16_t", "int_fast32_t", "int_fast64_t",
    "int_fast8_t", "int_least16_t", "int_least32_t", "int_least64_t", "int_least8_t",
    "intmax_t", "intptr_t", "isalnum", "isalpha", "isascii", "isatty", "isblank", "iscntrl",
    "isdigit", "isgraph", "islower", "isprint", "ispunct", "isspace", "isupper", "isxdigit",
    "key_t", "ldiv_t", "linux", "lldiv_t", "locale_t", "loff_t", "max_align_t", "mbstate_t",
    "mode_t", "nice", "nlink_t", "nullptr_t", "off64_t", "off_t", "offsetof", "optarg",
    "opterr", "optind", "optopt", "pid_t", "posix_openpt", "program_invocation_name",
    "program_invocation_short_name", "pthread_attr_t", "pthread_barrier_t",
    "pthread_barrierattr_t", "pthread_cond_t", "pthread_condattr_t", "pthread_key_t",
    "pthread_mutex_t", "pthread_mutexattr_t", "pthread_once_t", "pthread_rwlock_t",
    "pthread_rwlockattr_t", "pthread_setconcurrency", "pthread_spinlock_t", "pthread_t",
    "ptrdiff_t", "ptsname", "putchar", "putchar_unlocked", "quad_t", "quick_exit", "raise",
    "register_t", "sched_get_priority_max", "sched_get_priority_min", "sched_getscheduler",
    "sig_atomic_t", "signgam", "sigset_t", "size_t", "socklen_t", "spjit", "ssize_t", "std",
    "stderr", "stdin", "stdout", "strerror", "strsignal", "suseconds_t", "syncfs", "sysconf",
    "tcgetpgrp", "time_t", "timer_t", "timezone", "toascii", "tolower", "toupper", "ttyname",
    "tzname", "u_char", "u_int", "u_int16_t", "u_int32_t", "u_int64_t", "u_int8_t", "u_long",
    "u_quad_t", "u_short", "uid_t", "uint", "uint16_t", "uint32_t", "uint64_t", "uint8_t",
    "uint_fast16_t", "uint_fast32_t", "uint_fast64_t", "uint_fast8_t", "uint_least16_t",
    "uint_least32_t", "uint_least64_t", "uint_least8_t", "uintmax_t", "uintptr_t", "ulong",
    "unix", "unlockpt", "unshare", "useconds_t", "ushort", "va_list", "wctrans_t", "wctype_t",
    "wint_t"});
// clang-format on
static_assert(std::ranges::is_sorted(k_taken));

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// What [lex.name] of C++20 leaves to compilers and their libraries.
bool is_implementations(std::string_view name) {
  const bool has_capital = name.size() > 1 && name[1] >= 'A' && name[1] <= 'Z';
  return name.find("__") != std::string_view::npos || (name.starts_with('_') && has_capital);
}

}  // namespace

bool is_reserved_word(std::string_view text) noexcept {
  return std::ranges::binary_search(k_reserved, text);
}

bool is_function_name(std::string_view text) noexcept {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); }) &&
         !is_reserved_word(text) && !is_implementations(text) &&
         !std::ranges::binary_search(k_taken, text);
}

}  // namespace spjit
