#include "runtime/cache/cache_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_key_digits = 64;
constexpr std::size_t k_longest_file_name = 100;
// No file is larger, and sums of sizes cannot overflow.
constexpr std::int64_t k_most_file_bytes = std::int64_t{1} << 48;

// The first line holds the checksum of all lines after it, and yet the whole is one JSON object:
//     {"checksum": "<32 hex>",
//     "created": ..., "format": 1, ...}
constexpr std::string_view k_before_checksum = "{\"checksum\": \"";
constexpr std::string_view k_after_checksum = "\",\n";

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
                       .bytes = json_integer(value.at("bytes"), "bytes", 0, k_most_file_bytes),
                       .checksum = value.at("checksum").get<std::string>()};
  if (!is_cache_file_name(file.name)) {
    throw Error(fmt::format("it lists file {}, which is not allowed", quoted_json(file.name)));
  }
  return file;
}

/// All but the kernel.
CacheRecord parse_body(const json& value) {
  CacheRecord record;
  record.spjit_version = value.at("spjit").get<std::string>();
  record.key = value.at("key").get<std::string>();
  record.created = value.at("created").get<std::string>();
  record.files = parse_cache_files(value.at("files"));
  return record;
}

/// All lines but the first of record.json.
json body_of(const CacheRecord& record, json kernel) {
  return {{"format", k_cache_format},
          {"spjit", record.spjit_version},
          {"key", record.key},
          {"created", record.created},
          {"files", write_cache_files(record.files)},
          {"kernel", std::move(kernel)}};
}

/// Without the opening "{\n", which the first line brings.
std::string lines_of(const json& body) {
  return body.dump(1, ' ', false, json::error_handler_t::replace).substr(2) + "\n";
}

}  // namespace

bool is_cache_key(std::string_view text) noexcept { return is_hex_text(text, k_key_digits); }

bool is_cache_file_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= k_longest_file_name && text.front() != '.' &&
         text != k_record_file_name && std::ranges::all_of(text, is_file_name_char);
}

json write_cache_files(const std::vector<CacheFileRecord>& files) {
  json list = json::array();
  for (const CacheFileRecord& file : files) {
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  return list;
}

std::vector<CacheFileRecord> parse_cache_files(const json& value) {
  std::vector<CacheFileRecord> files;
  std::set<std::string> names;
  for (const json& entry : value) {
    files.push_back(parse_file(entry));
    if (!names.insert(files.back().name).second) {
      throw Error(fmt::format("it lists file '{}' twice", files.back().name));
    }
  }
  return files;
}

std::string write_cache_record(CacheRecord record) {
  json kernel = std::move(record.kernel);
  const std::string lines = lines_of(body_of(record, std::move(kernel)));
  return first_line(lines) + lines;
}

CacheRecord parse_cache_record(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos ||
      text.substr(0, end + 1) != first_line(text.substr(end + 1))) {
    throw CacheError("record.json does not match its checksum");
  }
  try {
    json value = parse_json(text);
    const json& format = value.at("format");
    if (format != k_cache_format) {
      throw OtherCacheFormat(fmt::format("record.json has format {}, expected {}",
                                         quoted_json(format), k_cache_format));
    }
    CacheRecord record = parse_body(value);
    // The checksum is no signature: whoever changes a record can make one that fits.
    json body = body_of(record, std::move(value.at("kernel")));
    if (lines_of(body) != text.substr(end + 1)) {
      throw Error("it has members or a form of its own");
    }
    record.kernel = std::move(body.at("kernel"));
    return record;
  } catch (const json::exception& error) {
    throw CacheError(fmt::format("record.json is not a record: {}", json_problem(error.what())));
  } catch (const CacheError&) {
    throw;
  } catch (const Error& error) {
    throw CacheError(fmt::format("record.json is not a record: {}", error.what()));
  }
}

}  // namespace spjit
