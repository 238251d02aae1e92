#include "base/http_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork_safe_mutex.hpp"
#include "base/hash.hpp"
#include "base/libcurl.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int k_ok_status = 200;
constexpr std::size_t k_most_kept = 16;  // handles, each with its connections
constexpr std::int64_t k_most_ignored = std::int64_t{64} << 10;  // bytes of a body nobody wants
constexpr auto k_cancel_step = milliseconds(50);

DynamicLibrary open_libcurl() {
  // Resident: its TLS library has exit handlers.
  constexpr auto k_resident = DynamicLibrary::Lifetime::resident;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (auto library = DynamicLibrary::try_open(name, k_resident)) return std::move(*library);
  }
  throw NotSupported(
      "HTTP needs libcurl.so.4, which the dynamic loader does not find; install libcurl "
      "(libcurl4)");
}

curl::Functions find_functions(const DynamicLibrary& library) {
  const curl::Functions functions(library);
  if (functions.global_init(curl::k_init_all) != curl::k_ok) {
    throw NotSupported(fmt::format("{} cannot be initialized", library.path().string()));
  }
  return functions;
}

const curl::Functions& libcurl() {
  static const DynamicLibrary k_library = open_libcurl();
  static const curl::Functions k_functions = find_functions(k_library);
  return k_functions;
}

/// A transfer's handle, and one that keeps its connections.
struct Handle {
  std::unique_ptr<curl::Easy, decltype(curl::Functions::easy_cleanup)> easy{libcurl().easy_init(),
                                                                            libcurl().easy_cleanup};
  std::unique_ptr<curl::Multi, decltype(curl::Functions::multi_cleanup)> multi{
      libcurl().multi_init(), libcurl().multi_cleanup};
};

/// Handles that no thread uses.
class HandlePool {
 public:
  std::unique_ptr<Handle> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Handle> handle = std::move(free_.back());
        free_.pop_back();
        return handle;
      }
    }
    auto handle = std::make_unique<Handle>();
    if (!handle->easy || !handle->multi) {
      throw HttpError(HttpFault::request, "libcurl makes no handle: out of memory");
    }
    return handle;
  }

  void give_back(std::unique_ptr<Handle> handle) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < k_most_kept) free_.push_back(std::move(handle));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> free_;
};

class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { libcurl().slist_free_all(list_); }

  void add(const std::string& line) { list_ = libcurl().slist_append(list_, line.c_str()); }
  [[nodiscard]] curl::List* get() const noexcept { return list_; }

 private:
  curl::List* list_ = nullptr;
};

struct Request {
  std::string url;
  const char* method = "GET";
  std::int64_t most_bytes = 0;
  const HttpSink* sink = nullptr;
  const HttpPut* put = nullptr;
  const Cancellation& cancel;
};

/// What a transfer's callbacks see.
struct Transfer {
  const Request& request;
  curl::Easy* easy;
  bool has_begun = false;  ///< the first byte of the answer is there
  std::int64_t bytes = 0;  ///< of the body so far
  std::exception_ptr thrown = nullptr;
  std::array<char, curl::k_error_bytes> error{};
};

int status_of(curl::Easy* easy) {
  long status = 0;
  libcurl().easy_getinfo(easy, curl::k_response_code, &status);
  return static_cast<int>(status);
}

std::size_t on_header(const char* /*line*/, std::size_t size, std::size_t count, void* user) {
  static_cast<Transfer*>(user)->has_begun = true;
  return size * count;
}

std::size_t on_body(const char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  transfer.bytes += static_cast<std::int64_t>(bytes);
  const bool is_wanted =
      transfer.request.sink != nullptr && status_of(transfer.easy) == k_ok_status;
  const std::int64_t most = is_wanted ? transfer.request.most_bytes : k_most_ignored;
  if (transfer.bytes > most) return 0;
  try {
    if (is_wanted) (*transfer.request.sink)(std::as_bytes(std::span(data, bytes)));
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
  return bytes;
}

HttpFault fault_of(int code) {
  switch (code) {
    case curl::k_timed_out:
      return HttpFault::timeout;
    case curl::k_tls_error:
    case curl::k_untrusted_server:
    case curl::k_bad_ca_file:
      return HttpFault::tls;
    case curl::k_too_large:
      return HttpFault::too_large;
    case curl::k_partial_file:
      return HttpFault::cut_short;
    case curl::k_unsupported_protocol:
    case curl::k_bad_url:
      return HttpFault::request;
    default:
      return HttpFault::connection;
  }
}

[[noreturn]] void fail(HttpFault fault, const Request& request, std::string_view reason) {
  throw HttpError(fault, fmt::format("{} {}: {}", request.method, request.url, reason));
}

std::string part_of(const curl::Parsed* url, int part, unsigned flags = 0) {
  char* text = nullptr;
  if (libcurl().url_get(url, part, &text, flags) != 0 || text == nullptr) return {};
  std::string result = text;
  libcurl().free(text);
  return result;
}

}  // namespace

UrlOrigin origin_of(const std::string& url) {
  const std::unique_ptr<curl::Parsed, decltype(curl::Functions::url_cleanup)> parsed(
      libcurl().url(), libcurl().url_cleanup);
  const bool is_url = parsed && url.find('\0') == std::string::npos &&
                      libcurl().url_set(parsed.get(), curl::k_part_url, url.c_str(), 0) == 0;
  if (!is_url) {
    throw InvalidArgument("what was given is no URL; expected one such as https://host/path");
  }
  UrlOrigin origin{.scheme = part_of(parsed.get(), curl::k_part_scheme),
                   .host = part_of(parsed.get(), curl::k_part_host),
                   .port = part_of(parsed.get(), curl::k_part_port, curl::k_default_port)};
  if (origin.scheme != "http" && origin.scheme != "https") {
    throw InvalidArgument(
        fmt::format("a URL of '{}' was given; expected http or https", origin.scheme));
  }
  if (!part_of(parsed.get(), curl::k_part_user).empty() ||
      !part_of(parsed.get(), curl::k_part_password).empty()) {
    throw InvalidArgument(
        fmt::format("the URL of {} holds a user or a password, which would be seen in messages; "
                    "expected them in a file",
                    origin.host));
  }
  return origin;
}

class HttpClient::Impl {
 public:
  explicit Impl(HttpOptions options) : options_(std::move(options)) {
    static_cast<void>(libcurl());
  }

  [[nodiscard]] int run(Request request) const {
    const Clock::time_point begin = Clock::now();
    const UrlOrigin first = checked_origin(request, HttpFault::request);
    UrlOrigin origin = first;
    for (int redirects = 0;; ++redirects) {
      const Answer answer = transfer(request, origin == first, begin);
      if (request.put != nullptr || answer.redirect.empty()) return answer.status;
      if (redirects == k_most_redirects) {
        fail(HttpFault::redirect, request, fmt::format("more than {} redirects", k_most_redirects));
      }
      request.url = answer.redirect;
      origin = checked_origin(request, HttpFault::redirect);
      if (origin.scheme != first.scheme) {
        fail(HttpFault::redirect, request, "a redirect to another scheme is not followed");
      }
    }
  }

 private:
  struct Answer {
    int status = 0;
    std::string redirect;  ///< where to, absolute; empty: none
  };

  [[nodiscard]] static UrlOrigin checked_origin(const Request& request, HttpFault fault) {
    try {
      return origin_of(request.url);
    } catch (const InvalidArgument& error) {
      throw HttpError(fault, error.what());
    }
  }

  [[nodiscard]] Answer transfer(const Request& request, bool is_same_host,
                                Clock::time_point begin) const {
    HandlePool& pool = pool_.get();
    std::unique_ptr<Handle> handle = pool.take();
    Transfer state{.request = request, .easy = handle->easy.get()};
    HeaderList headers;
    set_request(state, headers);
    if (is_same_host)
      std::visit([&](const auto& kind) { set(state, headers, kind); }, options_.credentials);
    must_set(state, curl::k_headers, headers.get());
    const int code = perform(*handle, state, begin);
    const Answer answer = answer_of(state, code);
    libcurl().easy_reset(state.easy);  // it pointed to what ends here
    pool.give_back(std::move(handle));
    return answer;
  }

  template <class Value>
  static void must_set(const Transfer& state, curl::Option option, Value value) {
    const int code = libcurl().easy_setopt(state.easy, option, value);
    if (code == curl::k_ok) return;
    fail(HttpFault::request, state.request,
         fmt::format("this libcurl does not take option {} ({})", static_cast<int>(option),
                     libcurl().easy_strerror(code)));
  }

  void set_request(Transfer& state, HeaderList& headers) const {
    const Request& request = state.request;
    must_set(state, curl::k_url, request.url.c_str());
    must_set(state, curl::k_protocols,
             request.url.starts_with("https:") ? curl::k_only_https : curl::k_only_http);
    must_set(state, curl::k_no_signal, 1L);
    // Unknown to an older libcurl, which waits for the name's server.
    libcurl().easy_setopt(state.easy, curl::k_quick_exit, 1L);
    must_set(state, curl::k_user_agent, "spjit/" SPJIT_VERSION);
    must_set(state, curl::k_error_buffer, state.error.data());
    must_set(state, curl::k_write_function, &on_body);
    must_set(state, curl::k_write_data, &state);
    must_set(state, curl::k_header_function, &on_header);
    must_set(state, curl::k_header_data, &state);
    if (!options_.ca_file.empty()) must_set(state, curl::k_ca_file, options_.ca_file.c_str());
    if (request.put != nullptr) {
      must_set(state, curl::k_post_bytes, static_cast<std::int64_t>(request.put->body.size()));
      must_set(state, curl::k_post_fields, request.put->body.data());
      must_set(state, curl::k_method, "PUT");
      headers.add("Content-Type: " + request.put->content_type);
    } else if (request.sink == nullptr) {
      must_set(state, curl::k_no_body, 1L);
    } else {
      must_set(state, curl::k_http_get, 1L);
      must_set(state, curl::k_most_bytes, request.most_bytes);
    }
  }

  static void set(const Transfer& /*state*/, HeaderList& /*headers*/, std::monostate /*none*/) {}
  static void set(const Transfer& state, HeaderList& /*headers*/, const HttpBearer& bearer) {
    must_set(state, curl::k_http_auth, curl::k_auth_bearer);
    must_set(state, curl::k_bearer, bearer.token.c_str());
  }
  static void set(const Transfer& state, HeaderList& /*headers*/, const HttpNetrc& netrc) {
    must_set(state, curl::k_netrc, curl::k_netrc_optional);
    must_set(state, curl::k_netrc_file, netrc.file.c_str());
  }
  static void set(const Transfer& state, HeaderList& headers, const HttpAwsKeys& keys) {
    must_set(state, curl::k_aws_sigv4, ("aws:amz:" + keys.region + ":s3").c_str());
    must_set(state, curl::k_user_name, keys.access_key.c_str());
    must_set(state, curl::k_password, keys.secret_key.c_str());
    // libcurl before 8 sends no digest of the body by itself; S3 asks for it.
    const std::span<const std::byte> body =
        state.request.put != nullptr ? state.request.put->body : std::span<const std::byte>();
    headers.add("x-amz-content-sha256: " + hex_text(sha256(body)));
    if (!keys.session_token.empty()) headers.add("x-amz-security-token: " + keys.session_token);
  }

  /// The code of the transfer. Throws HttpError for a deadline, and what `cancel` throws.
  [[nodiscard]] int perform(const Handle& handle, Transfer& state, Clock::time_point begin) const {
    const curl::Functions& curl = libcurl();
    curl::Multi* multi = handle.multi.get();
    if (curl.multi_add_handle(multi, state.easy) != curl::k_ok) {
      fail(HttpFault::request, state.request, "libcurl takes no more transfers");
    }
    const auto remove = [&](curl::Easy* easy) { curl.multi_remove_handle(multi, easy); };
    const std::unique_ptr<curl::Easy, decltype(remove)> removed(state.easy, remove);
    for (;;) {
      int running = 0;
      if (curl.multi_perform(multi, &running) != curl::k_ok) {
        fail(HttpFault::connection, state.request, "libcurl failed");
      }
      int left = 0;
      if (const curl::Message* message = curl.multi_info_read(multi, &left)) {
        return message->data.result;
      }
      state.request.cancel.check();
      const milliseconds step = time_left(state, begin);
      curl.multi_poll(multi, nullptr, 0, static_cast<int>(step.count()), nullptr);
    }
  }

  /// Until the next deadline, rounded up. Throws HttpError if it has passed.
  [[nodiscard]] milliseconds time_left(const Transfer& state, Clock::time_point begin) const {
    const bool waits = !state.has_begun && state.request.put == nullptr;
    const milliseconds limit =
        waits ? std::min(options_.first_byte, options_.total) : options_.total;
    const auto left = std::chrono::ceil<milliseconds>(begin + limit - Clock::now());
    if (left <= milliseconds(0)) {
      fail(HttpFault::timeout, state.request,
           fmt::format("{} after {} ms", waits ? "no answer" : "not done", limit.count()));
    }
    const Cancellation& cancel = state.request.cancel;
    const bool is_cancellable = cancel.deadline.has_value() || cancel.stop.stop_possible();
    return is_cancellable ? std::min(left, k_cancel_step) : left;
  }

  [[nodiscard]] static Answer answer_of(const Transfer& state, int code) {
    if (state.thrown) std::rethrow_exception(state.thrown);
    const Request& request = state.request;
    Answer answer{.status = status_of(state.easy), .redirect = {}};
    if (code == curl::k_too_large ||
        (code == curl::k_write_error && request.sink != nullptr && answer.status == k_ok_status)) {
      fail(HttpFault::too_large, request,
           fmt::format("the body has more than {} bytes", request.most_bytes));
    }
    // A body that nobody wants was long.
    const bool is_answer = code == curl::k_ok || code == curl::k_write_error;
    if (!is_answer || answer.status == 0) {
      const std::string_view reason = state.error.data();
      fail(fault_of(code), request, reason.empty() ? libcurl().easy_strerror(code) : reason);
    }
    const char* redirect = nullptr;
    libcurl().easy_getinfo(state.easy, curl::k_redirect_url, &redirect);
    if (redirect != nullptr) answer.redirect = redirect;
    return answer;
  }

  HttpOptions options_;
  PerProcess<HandlePool> pool_{[] { return std::make_unique<HandlePool>(); }};
};

HttpClient::HttpClient(HttpOptions options)
    : impl_(std::make_shared<const Impl>(std::move(options))) {}

int HttpClient::get(const std::string& url, std::int64_t most_bytes, const HttpSink& sink,
                    const Cancellation& cancel) const {
  return impl_->run({.url = url,
                     .method = "GET",
                     .most_bytes = most_bytes,
                     .sink = &sink,
                     .put = nullptr,
                     .cancel = cancel});
}

int HttpClient::head(const std::string& url, const Cancellation& cancel) const {
  return impl_->run({.url = url, .method = "HEAD", .cancel = cancel});
}

int HttpClient::put(const std::string& url, const HttpPut& what, const Cancellation& cancel) const {
  return impl_->run({.url = url, .method = "PUT", .put = &what, .cancel = cancel});
}

}  // namespace spjit
