#pragma once

/// @file
/// How every benchmark writes its result, JSON with a line a record, and reads it again.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/file_bytes.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {

/// Whether the entries of a member are records, each with a line of its own.
inline bool has_records(const nlohmann::json& member) {
  if (member.empty()) return false;
  return member.is_array() || (member.is_object() && member.front().is_object());
}

/// An object or array with an entry a line, as `write` has it; lines begin with `indent`.
template <class Write>
std::string with_entry_lines(const nlohmann::json& container, const std::string& indent,
                             const Write& write) {
  const bool is_array = container.is_array();
  std::string text(1, is_array ? '[' : '{');
  std::string separator = "\n";
  for (const auto& entry : container.items()) {
    text += separator + indent + ' ';
    if (!is_array) text += nlohmann::json(entry.key()).dump() + ": ";
    text += write(entry.value());
    separator = ",\n";
  }
  return text + '\n' + indent + (is_array ? ']' : '}');
}

/// `document`, an object, as JSON with a line a record, so that a diff shows which records changed.
inline std::string to_record_lines(const nlohmann::json& document) {
  const auto compact = [](const nlohmann::json& value) { return value.dump(); };
  const auto member = [&](const nlohmann::json& value) {
    return has_records(value) ? with_entry_lines(value, " ", compact) : value.dump();
  };
  return with_entry_lines(document, "", member) + '\n';
}

/// All of `document` or, if that fails, what the file held before. Throws IoError.
inline void save_json(const std::filesystem::path& file, const nlohmann::json& document) {
  const std::string text = to_record_lines(document);
  publish_file(file, std::as_bytes(std::span(text)));
}

/// The object in a file. Throws IoError for what is no JSON of that schema.
[[nodiscard]] inline nlohmann::json load_json(const std::filesystem::path& file,
                                              const std::string& schema) {
  std::ifstream stream(file);
  nlohmann::json document = nlohmann::json::parse(stream, nullptr, false);
  const bool is_object = !document.is_discarded() && document.is_object();
  if (!is_object || document.value("schema", "") != schema) {
    throw IoError(fmt::format("{}: expected a JSON file of schema {}", file.string(), schema));
  }
  return document;
}

}  // namespace spjit::bench
