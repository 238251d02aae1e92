#include "compiler/remote_options.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "artifact/bundle_impl.hpp"
#include "base/file_bytes.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "base/safe_path.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view k_s3_prefix = "s3+";
constexpr int k_longest_wait_ms = 3'600'000;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct stat status_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    throw IoError(fmt::format("{}: cannot be looked at: {}", file.string(), std::strerror(errno)));
  }
  return status;
}

/// Whoever can change it says whose kernels run.
void require_own(const fs::path& file) {
  const struct stat status = status_of(file);
  if (const Refusal reason = distrust(status.st_uid, status.st_mode, ::geteuid())) {
    throw InvalidArgument(
        fmt::format("{}: {}; expected one that its owner alone can write (chmod go-w)",
                    file.string(), reason.reason()));
  }
}

void require_secret(const fs::path& file) {
  require_own(file);
  constexpr mode_t k_others = 077;
  if ((status_of(file).st_mode & k_others) == 0) return;
  throw InvalidArgument(fmt::format(
      "{}: others can read this secret; expected one that its owner alone can (chmod 600)",
      file.string()));
}

/// A secret of one line.
std::string read_secret(const fs::path& file) {
  require_secret(file);
  std::string text = text_of(read_file(file));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const bool is_line = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c > ' ' && c < 0x7F;
  });
  if (is_line) return text;
  throw InvalidArgument(
      fmt::format("{}: holds no token; expected one line of ASCII without spaces", file.string()));
}

/// Lines "NAME = VALUE" of the section [default], which the file may leave unnamed.
HttpAwsKeys read_aws_file(const fs::path& file) {
  require_secret(file);
  HttpAwsKeys keys;
  bool is_default = true;
  const std::string text = text_of(read_file(file));
  std::string_view rest = text;
  const auto trimmed = [](std::string_view part) {
    const std::size_t first = part.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return std::string();
    return std::string(part.substr(first, part.find_last_not_of(" \t\r") + 1 - first));
  };
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string line = trimmed(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.starts_with('[')) is_default = line == "[default]";
    const std::size_t equals = line.find('=');
    if (!is_default || equals == std::string::npos) continue;
    const std::string name = trimmed(line.substr(0, equals));
    const std::string value = trimmed(line.substr(equals + 1));
    if (name == "aws_access_key_id") keys.access_key = value;
    if (name == "aws_secret_access_key") keys.secret_key = value;
    if (name == "aws_session_token") keys.session_token = value;
    if (name == "region") keys.region = value;
  }
  return keys;
}

/// "eu-west-1" of "https://bucket.s3.eu-west-1.amazonaws.com/prefix"; else empty.
std::string region_in(std::string_view url) {
  constexpr std::string_view k_begin = ".s3.";
  constexpr std::string_view k_end = ".amazonaws.com";
  const std::size_t begin = url.find(k_begin);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = url.substr(begin + k_begin.size());
  const std::size_t end = rest.find(k_end);
  return end == std::string_view::npos ? std::string() : std::string(rest.substr(0, end));
}

HttpAwsKeys aws_keys(const RemoteCacheOptions& options) {
  const AwsEnvironment environment = read_aws_environment();
  HttpAwsKeys keys;
  if (options.aws.empty() || options.aws == "env") {
    keys = {.access_key = environment.access_key.value_or(""),
            .secret_key = environment.secret_key.value_or(""),
            .session_token = environment.session_token.value_or(""),
            .region = {}};
  } else {
    keys = read_aws_file(options.aws);
  }
  for (const std::string& region :
       {options.region, region_in(options.url), keys.region, environment.region.value_or("")}) {
    if (region.empty()) continue;
    keys.region = region;
    break;
  }
  if (!keys.access_key.empty() && !keys.secret_key.empty() && !keys.region.empty()) return keys;
  throw InvalidArgument(
      "there are no keys of S3, or no region; expected AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "
      "and AWS_REGION, or options aws (a file) and region");
}

/// The URL as HTTP has it. Throws InvalidArgument, without what the URL holds of a password.
std::string http_url(std::string_view url) {
  if (url.starts_with(k_s3_prefix)) url.remove_prefix(k_s3_prefix.size());
  while (url.ends_with('/')) url.remove_suffix(1);
  const std::size_t slashes = url.find("://");
  const std::string_view scheme = url.substr(0, slashes);
  const bool is_http = slashes != std::string_view::npos && (scheme == "http" || scheme == "https");
  const std::string_view rest = is_http ? url.substr(slashes + 3) : std::string_view();
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.find('@') != std::string_view::npos) {
    throw InvalidArgument(
        "the URL of the remote cache holds a user or a password, which others could see; expected "
        "them in a file (token_file, netrc)");
  }
  const bool is_clean = std::ranges::all_of(
      url, [](unsigned char c) { return c > ' ' && c < 0x7F && c != '?' && c != '#'; });
  if (!host.empty() && is_clean) return std::string(url);
  throw InvalidArgument(fmt::format(
      "the remote cache is '{}'; expected https://HOST/PATH, s3+https://HOST/PATH or a file",
      printable(url)));
}

/// A value by its name. Throws InvalidArgument with all names.
template <class Value, std::size_t count>
Value named(std::string_view option, std::string_view name,
            const std::array<std::pair<std::string_view, Value>, count>& values) {
  std::string names;
  for (const auto& [known, value] : values) {
    if (known == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw InvalidArgument(fmt::format("{} of the remote cache is '{}'; expected one of {}", option,
                                    printable(name), names));
}

std::chrono::milliseconds milliseconds_of(std::string_view option, int value) {
  if (value >= 1 && value <= k_longest_wait_ms) return std::chrono::milliseconds(value);
  throw InvalidArgument(fmt::format("{} of the remote cache is {}; expected 1 .. {}", option, value,
                                    k_longest_wait_ms));
}

HttpCredentials credentials_of(const RemoteCacheOptions& options) {
  const bool is_s3 = options.url.starts_with(k_s3_prefix) || !options.aws.empty();
  const int ways =
      (is_s3 ? 1 : 0) + (options.token_file.empty() ? 0 : 1) + (options.netrc.empty() ? 0 : 1);
  if (ways > 1) {
    throw InvalidArgument(
        "the remote cache has several of token_file, netrc and aws; expected one");
  }
  if (is_s3) return aws_keys(options);
  if (!options.token_file.empty()) return HttpBearer{read_secret(options.token_file)};
  if (options.netrc.empty()) return std::monostate();
  require_secret(options.netrc);
  return HttpNetrc{options.netrc};
}

/// The path as one of a file lying in `folder` means it.
std::string beside(const fs::path& folder, const std::string& path) {
  return path.empty() || fs::path(path).is_absolute() ? path : (folder / path).string();
}

/// A name that was mistyped would be a default.
void require_known(const json& document) {
  constexpr std::array<std::string_view, 15> k_names = {
      "url",         "mode",       "layout",   "trust",     "public_keys",
      "private_key", "token_file", "netrc",    "aws",       "region",
      "ca_file",     "timeout_ms", "total_ms", "dear_only", "max_entry_bytes"};
  for (const auto& [name, value] : document.items()) {
    if (std::ranges::find(k_names, name) != k_names.end()) continue;
    throw Error(fmt::format("'{}' is no option of a remote cache", printable(name)));
  }
}

RemoteCacheOptions parse_options(const std::string& text, const fs::path& folder) {
  const json document = parse_json(text);
  JsonMembers members(document, "the file");
  require_known(document);
  RemoteCacheOptions options;
  const auto has = [&](const char* member) { return document.contains(member); };
  const auto take = [&](const char* member, auto& value) {
    if (has(member)) value = members.text(member);
  };
  const auto take_path = [&](const char* member, auto& value) {
    if (has(member)) value = beside(folder, members.text(member));
  };
  take("url", options.url);
  take("layout", options.layout);
  take("trust", options.trust);
  take("region", options.region);
  take_path("token_file", options.token_file);
  take_path("netrc", options.netrc);
  take_path("ca_file", options.ca_file);
  take_path("private_key", options.private_key);
  take("aws", options.aws);
  if (!options.aws.empty() && options.aws != "env") options.aws = beside(folder, options.aws);
  if (has("mode")) {
    options.may_write = named(
        "mode", members.text("mode"),
        std::array<std::pair<std::string_view, bool>, 2>{{{"read", false}, {"read-write", true}}});
  }
  if (has("public_keys")) {
    const json& keys = members.at("public_keys");
    if (!keys.is_array()) throw Error("\"public_keys\" of the file is no list");
    for (const json& key : keys) {
      if (!key.is_string()) throw Error("\"public_keys\" of the file holds what is no text");
      const std::string given = key.get<std::string>();
      options.public_keys.push_back(given.starts_with("-----") ? given : beside(folder, given));
    }
  }
  if (has("timeout_ms")) {
    options.timeout_ms = static_cast<int>(members.integer("timeout_ms", 1, k_longest_wait_ms));
  }
  if (has("total_ms")) {
    options.total_ms = static_cast<int>(members.integer("total_ms", 1, k_longest_wait_ms));
  }
  if (has("dear_only")) options.dear_only = members.boolean("dear_only");
  if (has("max_entry_bytes")) {
    options.max_entry_bytes = members.integer("max_entry_bytes", 1, std::int64_t{1} << 40);
  }
  return options;
}

RemoteCacheOptions read_options(const fs::path& file) {
  require_own(file);
  try {
    return parse_options(text_of(read_file(file)), file.parent_path());
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {
    throw InvalidArgument(fmt::format("{}: {}", file.string(), error.what()));
  }
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return !file.empty() && fs::exists(file, ignored);
}

RemoteCacheOptions read_url_or_file(const std::string& given, const fs::path& default_file) {
  if (given.find("://") == std::string::npos) return read_options(given);
  RemoteCacheOptions options;
  if (is_there(default_file)) options = read_options(default_file);
  options.url = given;
  return options;
}

}  // namespace

RemoteCacheOptions read_remote_cache(const std::string& url_or_file) {
  return read_url_or_file(url_or_file, default_remote_file(read_remote_environment()));
}

std::optional<RemoteCacheOptions> default_remote(const RemoteEnvironment& environment) {
  const fs::path file = default_remote_file(environment);
  if (environment.remote) {
    if (*environment.remote == "off") return std::nullopt;
    return read_url_or_file(*environment.remote, file);
  }
  if (!is_there(file)) return std::nullopt;
  RemoteCacheOptions options = read_options(file);
  if (options.url.empty()) return std::nullopt;
  return options;
}

RemoteSettings remote_settings(const RemoteCacheOptions& options) {
  RemoteSettings settings{.url = http_url(options.url)};
  settings.layout = named(
      "layout", options.layout,
      std::array<std::pair<std::string_view, RemoteLayout>, 3>{{{"subdirs", RemoteLayout::subdirs},
                                                                {"flat", RemoteLayout::flat},
                                                                {"bazel", RemoteLayout::bazel}}});
  settings.trust =
      named("trust", options.trust,
            std::array<std::pair<std::string_view, RemoteTrust>, 2>{
                {{"signed", RemoteTrust::is_signed}, {"server", RemoteTrust::server}}});
  settings.may_write = options.may_write;
  for (const std::string& key : options.public_keys) {
    if (const auto read = read_public_key(key)) settings.public_keys.push_back(*read);
  }
  if (settings.trust == RemoteTrust::is_signed && settings.public_keys.empty()) {
    throw InvalidArgument(
        "the remote cache has no public_keys, so nothing of it could be taken; expected keys of "
        "those who write there, or trust \"server\", with which they run code as you");
  }
  constexpr std::string_view k_pem = "-----BEGIN ";
  if (!options.private_key.empty() && !options.private_key.starts_with(k_pem)) {
    require_secret(options.private_key);
  }
  settings.private_key = read_private_key(options.private_key);
  settings.dear_only = options.dear_only;
  if (options.max_entry_bytes < 1) {
    throw InvalidArgument(fmt::format(
        "max_entry_bytes of the remote cache is {}; expected 1 or more", options.max_entry_bytes));
  }
  settings.most_entry_bytes = options.max_entry_bytes;
  settings.http = {.first_byte = milliseconds_of("timeout_ms", options.timeout_ms),
                   .total = milliseconds_of("total_ms", options.total_ms),
                   .ca_file = options.ca_file,
                   .credentials = credentials_of(options)};
  return settings;
}

}  // namespace spjit
