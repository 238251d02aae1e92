#pragma once

/// @file
/// JSON from anyone: records and models that lie in files. What is wrong with it is an Error of one
/// line, never an exception of the JSON library.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace spjit {

/// Arrays and objects within each other. Copying and writing JSON recurse, so that depth costs
/// stack.
inline constexpr int k_deepest_json = 32;

/// The document, in time linear in its length and memory of at most 64 bytes for each of its bytes.
/// Throws Error for text that is not JSON or is nested deeper than `k_deepest_json`.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);

/// `what` of an exception of the JSON library, without the library's name of that exception: one
/// line.
[[nodiscard]] std::string json_problem(std::string_view what);

/// The first member that one object of a document has twice, of which parse_json() keeps the last.
/// For text that parse_json() takes.
[[nodiscard]] std::optional<std::string> find_repeated_member(std::string_view text);

/// `value` as an integer from `least` to `most`; 1.0 and true are none. Throws Error that calls it
/// `what`.
[[nodiscard]] std::int64_t json_integer(const nlohmann::json& value, std::string_view what,
                                        std::int64_t least, std::int64_t most);

/// A value as JSON on one line, fit for a message: at most 40 bytes of it, then dots.
[[nodiscard]] std::string quoted_json(const nlohmann::json& value);

/// Reads each member once. Refers to the object. Every member function throws Error that names the
/// object and the member.
class JsonMembers {
 public:
  /// Throws unless it is an object.
  JsonMembers(const nlohmann::json& object, std::string name);

  [[nodiscard]] const nlohmann::json& at(const char* member);
  [[nodiscard]] std::int64_t integer(const char* member, std::int64_t least, std::int64_t most);
  [[nodiscard]] double number(const char* member, double least, double most);
  [[nodiscard]] std::string text(const char* member);
  [[nodiscard]] bool boolean(const char* member);
  /// Throws for members that nobody read.
  void finish() const;

 private:
  const nlohmann::json& object_;
  std::string name_;
  std::size_t read_ = 0;
};

}  // namespace spjit
