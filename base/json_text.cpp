#include "base/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

// The text is looked through before it is parsed: the library's way of watching the depth, a
// callback, takes time quadratic in the number of elements. Where the text is no JSON this may be
// wrong only behind the first error, which is as far as the parser gets.
int deepest_nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size() && deepest <= k_deepest_json; ++at) {
    const char c = text[at];
    if (in_string) {
      at += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

/// Goes through a text and stops at a member that its object has already.
class RepeatedMember : public json::json_sax_t {
 public:
  [[nodiscard]] const std::optional<std::string>& found() const noexcept { return found_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    objects_.emplace_back();
    return true;
  }
  bool end_object() override {
    objects_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!objects_.back().insert(name).second) found_ = name;
    return !found_;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> objects_;
  std::optional<std::string> found_;
};

// Nothing for what does not fit 64 signed bits.
std::optional<std::int64_t> integer_in(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr auto k_most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > k_most) return std::nullopt;
  return value.get<std::int64_t>();
}

}  // namespace

json parse_json(std::string_view text) {
  if (deepest_nesting(text) > k_deepest_json) {
    throw Error(fmt::format("nested deeper than {}", k_deepest_json));
  }
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    throw Error(json_problem(error.what()));
  }
}

std::string json_problem(std::string_view what) {
  constexpr std::string_view k_end_of_name = "] ";
  const std::size_t end =
      what.starts_with("[json.exception.") ? what.find(k_end_of_name) : what.npos;
  if (end != what.npos) what.remove_prefix(end + k_end_of_name.size());
  return printable(what);
}

std::optional<std::string> find_repeated_member(std::string_view text) {
  RepeatedMember finder;
  static_cast<void>(json::sax_parse(text, &finder));
  return finder.found();
}

std::int64_t json_integer(const json& value, std::string_view what, std::int64_t least,
                          std::int64_t most) {
  const std::optional<std::int64_t> number = integer_in(value);
  if (!number || *number < least || *number > most) {
    throw Error(fmt::format("{} is {}; expected an integer from {} to {}", what, quoted_json(value),
                            least, most));
  }
  return *number;
}

std::string quoted_json(const json& value) {
  constexpr std::size_t k_longest = 40;
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), k_longest);
}

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
