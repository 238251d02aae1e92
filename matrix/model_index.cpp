#include "matrix/model_index.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file_bytes.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_most_index_bytes = 100'000'000;  // as of a header

/// Whoever writes an index says what is read: no other folder is.
bool is_plain_name(const std::string& file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

ModelIndex index_of(std::string_view text) {
  const nlohmann::json document = parse_json(text);
  if (const auto twice = find_repeated_member(text)) {
    throw Error(fmt::format("'{}' is there twice", printable(*twice)));
  }
  const nlohmann::json& map = JsonMembers(document, "the index").at("weight_map");
  if (!map.is_object()) {
    throw Error(fmt::format("\"weight_map\" is {}; expected an object", quoted_json(map)));
  }
  ModelIndex index;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>())) {
      throw Error(fmt::format("tensor '{}' is in {}; expected the name of a file beside the index",
                              printable(tensor), quoted_json(file)));
    }
    index.tensors[file.get<std::string>()].push_back(tensor);
  }
  const auto metadata = document.find("metadata");
  if (metadata == document.end() || !metadata->is_object()) return index;
  for (const auto& [name, value] : metadata->items()) {
    if (value.is_string()) index.metadata.emplace(name, value.get<std::string>());
  }
  return index;
}

}  // namespace

ModelIndex parse_model_index(std::string_view text, std::string_view name) {
  if (text.size() > k_most_index_bytes) {
    fail_to_read(name, fmt::format("it has {} bytes: expected an index of at most {}", text.size(),
                                   k_most_index_bytes));
  }
  try {
    return index_of(text);
  } catch (const Error& error) {
    fail_to_read(name, fmt::format("index of a model: {}", error.what()));
  }
}

ModelIndex read_model_index(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return parse_model_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                           path.string());
}

}  // namespace spjit
