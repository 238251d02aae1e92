#include "base/json_members.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit {

using nlohmann::json;

JsonMembers::JsonMembers(const json& object, std::string name)
    : object_(object), name_(std::move(name)) {
  if (!object.is_object()) {
    throw Error(fmt::format("{} is {}; expected an object", name_, quoted_json(object)));
  }
}

const json& JsonMembers::at(const char* member) {
  const auto found = object_.find(member);
  if (found == object_.end()) throw Error(fmt::format("{} has no \"{}\"", name_, member));
  ++read_;
  return *found;
}

std::int64_t JsonMembers::integer(const char* member, std::int64_t least, std::int64_t most) {
  return json_integer(at(member), fmt::format("\"{}\" of {}", member, name_), least, most);
}

double JsonMembers::number(const char* member, double least, double most) {
  const json& value = at(member);
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (number >= least && number <= most) return number;
  }
  throw Error(fmt::format("\"{}\" of {} is {}; expected a number from {} to {}", member, name_,
                          quoted_json(value), least, most));
}

std::string JsonMembers::text(const char* member) {
  const json& value = at(member);
  if (value.is_string()) return value.get<std::string>();
  throw Error(
      fmt::format("\"{}\" of {} is {}; expected a string", member, name_, quoted_json(value)));
}

bool JsonMembers::boolean(const char* member) {
  const json& value = at(member);
  if (value.is_boolean()) return value.get<bool>();
  throw Error(
      fmt::format("\"{}\" of {} is {}; expected true or false", member, name_, quoted_json(value)));
}

void JsonMembers::finish() const {
  if (read_ == object_.size()) return;
  throw Error(fmt::format("{} has {} members; this spjit knows {}", name_, object_.size(), read_));
}

}  // namespace spjit
