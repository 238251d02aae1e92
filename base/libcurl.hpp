#pragma once

/// @file
/// The part of libcurl's C interface that is used here. It comes from curl/curl.h and
/// curl/multi.h, which are not needed to build. Numbers and signatures are those of libcurl.so.4,
/// which has kept them since 2006; later options are refused by older libraries.

#include <type_traits>

#include "base/dynamic_library.hpp"

namespace spjit::curl {

struct Easy;    ///< CURL
struct Multi;   ///< CURLM
struct Parsed;  ///< CURLU
struct List;    ///< curl_slist

/// Results of easy handles (CURLcode).
enum Code : int {
  k_ok = 0,
  k_unsupported_protocol = 1,
  k_bad_url = 3,
  k_no_proxy = 5,
  k_no_host = 6,
  k_no_connection = 7,
  k_partial_file = 18,
  k_write_error = 23,
  k_timed_out = 28,
  k_tls_error = 35,
  k_got_nothing = 52,
  k_send_error = 55,
  k_receive_error = 56,
  k_untrusted_server = 60,
  k_too_large = 63,
  k_bad_ca_file = 77,
};

/// CURLoption: numbers of the kinds long (0), pointer (10000), function (20000), 64 bits (30000).
enum Option : int {
  k_no_body = 44,  ///< HEAD
  k_netrc = 51,
  k_http_get = 80,
  k_no_signal = 99,
  k_http_auth = 107,
  k_protocols = 181,
  k_quick_exit = 322,  ///< since 7.87: a name that is being looked up is not waited for
  k_write_data = 10001,
  k_url = 10002,
  k_error_buffer = 10010,
  k_post_fields = 10015,
  k_user_agent = 10018,
  k_headers = 10023,
  k_header_data = 10029,
  k_method = 10036,
  k_ca_file = 10065,
  k_netrc_file = 10118,
  k_user_name = 10173,
  k_password = 10174,
  k_bearer = 10220,
  k_aws_sigv4 = 10305,  ///< since 7.75
  k_write_function = 20011,
  k_header_function = 20079,
  k_most_bytes = 30117,
  k_post_bytes = 30120,
};

/// Values of options.
inline constexpr long k_netrc_optional = 1;
inline constexpr long k_auth_bearer = 1L << 6;
inline constexpr long k_only_http = 1;
inline constexpr long k_only_https = 2;
inline constexpr long k_init_all = 3;
inline constexpr int k_error_bytes = 256;

/// CURLINFO.
inline constexpr int k_response_code = 0x200000 + 2;
inline constexpr int k_redirect_url = 0x100000 + 31;

/// CURLUPart, and a flag.
inline constexpr int k_part_url = 0;
inline constexpr int k_part_scheme = 1;
inline constexpr int k_part_user = 2;
inline constexpr int k_part_password = 3;
inline constexpr int k_part_host = 5;
inline constexpr int k_part_port = 6;
inline constexpr unsigned k_default_port = 1;

/// CURLMsg.
struct Message {
  int kind;  ///< 1: a transfer is done
  Easy* easy;
  union {
    void* whatever;
    int result;
  } data;
};

/// Its functions. Found once a process.
struct Functions {
  explicit Functions(const DynamicLibrary& library) {
#define SPJIT_FIND(name) \
  name = library.require<std::remove_pointer_t<decltype(name)>>("curl_" #name)
    SPJIT_FIND(global_init);
    SPJIT_FIND(easy_init);
    SPJIT_FIND(easy_cleanup);
    SPJIT_FIND(easy_reset);
    SPJIT_FIND(easy_setopt);
    SPJIT_FIND(easy_getinfo);
    SPJIT_FIND(easy_strerror);
    SPJIT_FIND(multi_init);
    SPJIT_FIND(multi_cleanup);
    SPJIT_FIND(multi_add_handle);
    SPJIT_FIND(multi_remove_handle);
    SPJIT_FIND(multi_perform);
    SPJIT_FIND(multi_poll);
    SPJIT_FIND(multi_info_read);
    SPJIT_FIND(slist_append);
    SPJIT_FIND(slist_free_all);
    SPJIT_FIND(url);
    SPJIT_FIND(url_cleanup);
    SPJIT_FIND(url_get);
    SPJIT_FIND(url_set);
    SPJIT_FIND(free);
#undef SPJIT_FIND
  }

  int (*global_init)(long flags);
  Easy* (*easy_init)();
  void (*easy_cleanup)(Easy*);
  void (*easy_reset)(Easy*);
  int (*easy_setopt)(Easy*, int option, ...);
  int (*easy_getinfo)(Easy*, int info, ...);
  const char* (*easy_strerror)(int code);
  Multi* (*multi_init)();
  int (*multi_cleanup)(Multi*);
  int (*multi_add_handle)(Multi*, Easy*);
  int (*multi_remove_handle)(Multi*, Easy*);
  int (*multi_perform)(Multi*, int* running);
  int (*multi_poll)(Multi*, void* more, unsigned count, int timeout_ms, int* ready);
  Message* (*multi_info_read)(Multi*, int* left);
  List* (*slist_append)(List*, const char*);
  void (*slist_free_all)(List*);
  Parsed* (*url)();
  void (*url_cleanup)(Parsed*);
  int (*url_get)(const Parsed*, int part, char** text, unsigned flags);
  int (*url_set)(Parsed*, int part, const char* text, unsigned flags);
  void (*free)(void*);
};

}  // namespace spjit::curl
