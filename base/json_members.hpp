#pragma once

/// @file
/// Reading the members of a JSON object, all of which must be known.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace spjit {

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
