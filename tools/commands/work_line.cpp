#include "tools/commands/work_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/file_bytes.hpp"
#include "base/hash.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_id_digits = 64;

/// Throws InvalidArgument that names the member.
template <typename T>
T member(const Json& json, const char* name, const char* expected) {
  const auto found = json.find(name);
  if (found == json.end()) {
    throw InvalidArgument(fmt::format("there is no \"{}\"; expected {}", name, expected));
  }
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    throw InvalidArgument(
        fmt::format("\"{}\" is {}; expected {}", name, one_line(found->dump()), expected));
  }
}

bool is_id(const std::string& text) {
  return text.size() == k_id_digits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

WorkLine read_line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw InvalidArgument("it is no JSON object; expected a line of a plan");
  WorkLine line{
      .id = member<std::string>(json, "id", "64 hexadecimal digits"),
      .spjit = member<std::string>(json, "spjit", "a version"),
      .file = member<std::string>(json, "file", "a path"),
      .layer = member<std::string>(json, "layer", "a name"),
      .target = member<std::string>(json, "target", "the name of a target"),
      .resource = member<std::string>(json, "resource", "text"),
      .nnz = member<std::int64_t>(json, "nnz", "a whole number"),
      .seconds = member<double>(json, "seconds", "a number"),
      .arguments = member<std::vector<std::string>>(json, "arguments", "a list of texts")};
  if (!is_id(line.id)) {
    throw InvalidArgument(
        fmt::format("\"id\" is '{}'; expected 64 hexadecimal digits", one_line(line.id)));
  }
  return line;
}

}  // namespace

Json to_json(const WorkLine& line) {
  return {{"id", line.id},       {"spjit", line.spjit},     {"file", line.file},
          {"layer", line.layer}, {"target", line.target},   {"resource", line.resource},
          {"nnz", line.nnz},     {"seconds", line.seconds}, {"arguments", line.arguments}};
}

std::vector<WorkLine> read_work(const std::filesystem::path& file) {
  const std::vector<std::byte> bytes = read_file(file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<WorkLine> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    try {
      lines.push_back(read_line(text.substr(begin, end - begin)));
    } catch (const InvalidArgument& error) {
      throw IoError(fmt::format("{}:{}: {}", shown(file), number, error.what()));
    }
    begin = end + 1;
  }
  if (lines.empty()) {
    throw IoError(
        fmt::format("{}: there is no line; expected a plan of 'spjit plan'", shown(file)));
  }
  return lines;
}

InputName name_in_plan(const Input& input) {
  if (input.layer == nullptr) return {input.path.string(), ""};
  return {input.path.parent_path().string(), input.layer->weights.what.name};
}

PlannedInput planned_input(const Input& input, const KernelOptions& options) {
  PlannedInput planned{.options = options_for(input, options), .problem = {}};
  planned.problem = spjit::to_json(checked_problem(load_problem(input, planned.options)));
  return planned;
}

KernelOptions options_of_target(KernelOptions options, const Target& target) {
  options.compile.target = target;
  options.targets = {target};
  return options;
}

std::string work_id(const PlannedInput& input, const std::string& layer, const Target& target) {
  Json described = describe(options_of_target(input.options, target));
  described.erase("cache");
  KeyBuilder key;
  key.field("spjit", SPJIT_VERSION)
      .field("layer", layer)
      .field("target", target.name())
      .field("problem", input.problem.dump())
      .field("options", described.dump(-1, ' ', true, Json::error_handler_t::replace));
  return key.hex();
}

std::vector<std::size_t> share_of(const std::vector<WorkLine>& lines, std::size_t which,
                                  std::size_t workers) {
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t one, std::size_t other) {
    return lines[one].seconds > lines[other].seconds;
  });
  std::vector<double> loads(workers, 0);
  std::vector<std::size_t> share;
  for (const std::size_t line : order) {
    const auto least = std::ranges::min_element(loads);
    *least += lines[line].seconds;
    if (least - loads.begin() == static_cast<std::ptrdiff_t>(which)) share.push_back(line);
  }
  std::ranges::sort(share);
  return share;
}

}  // namespace spjit::cli
