#pragma once

/// @file
/// record.json: what a cache entry says about itself. docs/design/cache-format.md has the grammar.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/error.hpp"

namespace spjit {

/// The layout of the cache directory and of record.json. Entries of another format are misses.
inline constexpr std::int64_t k_cache_format = 1;

inline constexpr std::string_view k_record_file_name = "record.json";

/// A whole record of another format: of no use here, but not damaged.
class OtherCacheFormat : public CacheError {
 public:
  using CacheError::CacheError;
};

struct CacheFileRecord {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;  ///< `checksum_hex()` of the content

  bool operator==(const CacheFileRecord&) const = default;
};

struct CacheRecord {
  std::string spjit_version;  ///< of the program that wrote the entry
  std::string key;            ///< 64 lowercase hexadecimal digits
  std::string created;        ///< UTC, "2025-01-31T23:59:59Z"
  std::vector<CacheFileRecord> files;
  nlohmann::json kernel;  ///< whatever the caller wants to keep
};

/// 64 lowercase hexadecimal digits.
[[nodiscard]] bool is_cache_key(std::string_view text) noexcept;

/// 1 to 100 of [A-Za-z0-9._-], not beginning with a dot, not "record.json".
[[nodiscard]] bool is_cache_file_name(std::string_view text) noexcept;

/// The member `files` of record.json. Reading throws Error for a name that is not allowed or there
/// twice and for a size that is none, nlohmann::json::exception.
[[nodiscard]] nlohmann::json write_cache_files(const std::vector<CacheFileRecord>& files);
[[nodiscard]] std::vector<CacheFileRecord> parse_cache_files(const nlohmann::json& value);

/// The text of record.json, checksum first. Text in `kernel` that is not UTF-8 gets U+FFFD.
[[nodiscard]] std::string write_cache_record(CacheRecord record);

/// Throws CacheError with the reason for any text that `write_cache_record()` of the same format
/// did not write: a changed byte anywhere is noticed. OtherCacheFormat if only the format differs.
[[nodiscard]] CacheRecord parse_cache_record(std::string_view text);

}  // namespace spjit
