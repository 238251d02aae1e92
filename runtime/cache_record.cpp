#include "runtime/cache_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/hash.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_key_digits = 64;
constexpr std::size_t k_longest_file_name = 100;

// The first line holds the checksum of all lines after it, and yet the whole is one JSON object:
//     {"checksum": "<32 hex>",
//     "created": ..., "format": 1, ...}
constexpr std::string_view k_before_checksum = "{\"checksum\": \"";
constexpr std::string_view k_after_checksum = "\",\n";

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool is_file_name_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '_' || c == '-';
}

std::string first_line(std::string_view rest) {
  return fmt::format("{}{}{}", k_before_checksum, checksum_hex(std::as_bytes(std::span(rest))),
                     k_after_checksum);
}

CacheFileRecord parse_file(const json& value) {
  CacheFileRecord file{.name = value.at("name").get<std::string>(),
                       .bytes = value.at("bytes").get<std::int64_t>(),
                       .checksum = value.at("checksum").get<std::string>()};
  if (!is_cache_file_name(file.name) || file.bytes < 0) {
    throw CacheError(fmt::format("record.json lists file '{}' of {} bytes, which is not allowed",
                                 file.name, file.bytes));
  }
  return file;
}

CacheRecord parse_body(const json& value) {
  CacheRecord record;
  record.spjit_version = value.at("spjit").get<std::string>();
  record.key = value.at("key").get<std::string>();
  record.created = value.at("created").get<std::string>();
  for (const json& file : value.at("files")) record.files.push_back(parse_file(file));
  record.kernel = value.at("kernel");
  return record;
}

}  // namespace

bool is_cache_key(std::string_view text) noexcept {
  return text.size() == k_key_digits && std::ranges::all_of(text, is_hex_digit);
}

bool is_cache_file_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= k_longest_file_name && text.front() != '.' &&
         text != k_record_file_name && std::ranges::all_of(text, is_file_name_char);
}

std::string write_cache_record(const CacheRecord& record) {
  json files = json::array();
  for (const CacheFileRecord& file : record.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  const json body = {{"format", k_cache_format},  {"spjit", record.spjit_version},
                     {"key", record.key},         {"created", record.created},
                     {"files", std::move(files)}, {"kernel", record.kernel}};
  const std::string text = body.dump(1, ' ', false, json::error_handler_t::replace);
  // Without the opening "{\n", which the first line brings.
  const std::string rest = text.substr(2) + "\n";
  return first_line(rest) + rest;
}

CacheRecord parse_cache_record(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos ||
      text.substr(0, end + 1) != first_line(text.substr(end + 1))) {
    throw CacheError("record.json does not match its checksum");
  }
  try {
    const json value = json::parse(text);
    const std::int64_t format = value.at("format").get<std::int64_t>();
    if (format != k_cache_format) {
      throw OtherCacheFormat(
          fmt::format("record.json has format {}, expected {}", format, k_cache_format));
    }
    return parse_body(value);
  } catch (const json::exception& error) {
    throw CacheError(fmt::format("record.json is not a record: {}", error.what()));
  }
}

}  // namespace spjit
