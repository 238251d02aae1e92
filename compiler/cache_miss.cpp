#include "compiler/cache_miss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr const char* k_none = "none";
constexpr std::string_view k_pattern = "pattern";

/// Texts of fields by name, of one part of a key.
using Fields = std::map<std::string, std::string>;

/// Also of a record that somebody else wrote.
Fields part_of(const json& fields, const char* part) {
  Fields found;
  const auto object = fields.find(part);
  if (object == fields.end() || !object->is_object()) return found;
  for (const auto& [name, value] : object->items()) {
    found[name] = printable(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return found;
}

std::string value_of(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? k_none : found->second;
}

/// Fields of one part with two values.
std::vector<FieldDifference> compare(const json& there, const json& wanted, const char* part) {
  const Fields of_there = part_of(there, part);
  const Fields of_wanted = part_of(wanted, part);
  std::set<std::string> names;
  for (const auto& [name, value] : of_there) names.insert(name);
  for (const auto& [name, value] : of_wanted) names.insert(name);
  std::vector<FieldDifference> differences;
  for (const std::string& name : names) {
    FieldDifference one{name, value_of(of_there, name), value_of(of_wanted, name)};
    if (one.there != one.wanted) differences.push_back(std::move(one));
  }
  return differences;
}

/// "csr 6, windows 7" without what the other list has, too.
std::string own_items(const std::string& items, const std::string& others) {
  std::string own;
  constexpr std::string_view k_comma = ", ";
  for (std::size_t begin = 0; begin < items.size();) {
    const std::size_t end = std::min(items.find(k_comma, begin), items.size());
    const std::string item = items.substr(begin, end - begin);
    const bool is_shared = (k_comma.data() + others + ",").find(" " + item + ",") != others.npos;
    if (!is_shared) own += (own.empty() ? "" : ", ") + item;
    begin = end + k_comma.size();
  }
  return own.empty() ? k_none : own;
}

bool has(const std::vector<FieldDifference>& differences, std::string_view field) {
  return std::ranges::find(differences, field, &FieldDifference::field) != differences.end();
}

void leave_out(std::vector<FieldDifference>& differences, std::string_view field) {
  std::erase_if(differences, [&](const FieldDifference& one) { return one.field == field; });
}

/// Two arrays are the pattern of A.
void join_pattern(std::vector<FieldDifference>& differences) {
  const auto is_pattern = [](const FieldDifference& one) {
    return one.field == "row_ptrs" || one.field == "col_idxs";
  };
  const auto first = std::ranges::find_if(differences, is_pattern);
  if (first == differences.end()) return;
  FieldDifference pattern = *first;
  pattern.field = k_pattern;
  std::erase_if(differences, is_pattern);
  differences.push_back(std::move(pattern));
}

std::vector<FieldDifference> compare_problems(const json& there, const json& wanted) {
  std::vector<FieldDifference> found = compare(there, wanted, "problem");
  join_pattern(found);
  const bool has_size = has(found, "rows") || has(found, "cols");
  if (has_size) leave_out(found, k_pattern);
  if (has_size || has(found, k_pattern)) leave_out(found, "values");
  const bool has_n = has(found, "n");
  if (has_size || has_n || has(found, "b_layout")) leave_out(found, "ldb");
  if (has_size || has_n || has(found, "c_layout")) leave_out(found, "ldc");
  return found;
}

/// Devices of one target; of two of them nothing but that they are two is of interest.
std::vector<FieldDifference> compare_targets(const ListedKernel& there, const json& fields,
                                             const WantedKernel& wanted) {
  std::vector<FieldDifference> found = compare(fields, wanted.fields, "target");
  std::vector<FieldDifference> device = compare(fields, wanted.fields, "device");
  std::vector<FieldDifference> versions = compare(fields, wanted.fields, "versions");
  if (!has(found, "isa") && !has(device, "arch")) {
    found.insert(found.end(), device.begin(), device.end());
  } else {
    const json target = there.record.value("target", json());
    std::erase_if(found, [](const FieldDifference& one) {
      return one.field == "isa" || one.there == k_none || one.wanted == k_none;
    });
    found.insert(found.begin(),
                 {"target", target.is_string() ? printable(target.get<std::string>()) : k_none,
                  wanted.target});
    const bool is_other_backend = has(device, "arch") && has(device, "fmas_per_cycle");
    if (is_other_backend) leave_out(versions, "families");
  }
  for (FieldDifference& one : versions) {
    if (one.field != "families") continue;
    const std::string of_there = own_items(one.there, one.wanted);
    one.wanted = own_items(one.wanted, one.there);
    one.there = of_there;
  }
  found.insert(found.begin(), versions.begin(), versions.end());
  return found;
}

/// The less the nearer. A counts more than all that does not change what kernel A has.
int distance_of(const FieldDifference& difference) {
  static const std::map<std::string_view, int> k_weights = {
      {"rows", 1000}, {"cols", 1000}, {k_pattern, 500}, {"values", 200}, {"target", 20}};
  const auto found = k_weights.find(difference.field);
  return found == k_weights.end() ? 1 : found->second;
}

int distance_of(std::span<const FieldDifference> differences) {
  int sum = 0;
  for (const FieldDifference& one : differences) sum += distance_of(one);
  return sum;
}

bool has_same_matrix(std::span<const FieldDifference> differences) {
  return std::ranges::none_of(differences, [](const FieldDifference& one) {
    return one.field == "rows" || one.field == "cols" || one.field == k_pattern ||
           one.field == "values";
  });
}

std::string columns_text(const std::string& runtime, const std::string& n) {
  return runtime == "1" ? "any" : n;
}

/// "sm_90 with n = any".
std::string kind_of(const ListedKernel& kernel) {
  const Fields problem = part_of(kernel.record.at("key"), "problem");
  const json target = kernel.record.value("target", json());
  return fmt::format("{} with n = {}",
                     target.is_string() ? printable(target.get<std::string>()) : k_none,
                     columns_text(value_of(problem, "runtime_n"), value_of(problem, "n")));
}

/// What there is of the wanted A, each kind once.
std::string kinds_of_matrix(const WantedKernel& wanted, std::span<const ListedKernel> there) {
  constexpr std::size_t k_most_shown = 6;
  std::vector<std::string> kinds;
  for (const ListedKernel& each : there) {
    const auto of_each = differences(wanted, each);
    if (!of_each || !has_same_matrix(*of_each)) continue;
    std::string kind = kind_of(each);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kinds.size(), k_most_shown); ++i) {
    text += (i == 0 ? "" : ", ") + kinds[i];
  }
  if (kinds.size() > k_most_shown) text += fmt::format(" and {} more", kinds.size() - k_most_shown);
  return text;
}

}  // namespace

std::optional<std::vector<FieldDifference>> differences(const WantedKernel& wanted,
                                                        const ListedKernel& there) {
  if (!there.record.is_object()) return std::nullopt;
  const auto fields = there.record.find("key");
  if (fields == there.record.end() || !fields->is_object()) return std::nullopt;
  std::vector<FieldDifference> found = compare_targets(there, *fields, wanted);
  for (std::vector<FieldDifference> part :
       {compare_problems(*fields, wanted.fields), compare(*fields, wanted.fields, "policy"),
        compare(*fields, wanted.fields, "search")}) {
    std::ranges::move(part, std::back_inserter(found));
  }
  return found;
}

std::optional<NearKernel> nearest_kernel(const WantedKernel& wanted,
                                         std::span<const ListedKernel> there) {
  std::optional<NearKernel> nearest;
  int distance = 0;
  for (const ListedKernel& each : there) {
    auto of_each = differences(wanted, each);
    if (!of_each) continue;
    const int of_this = distance_of(*of_each);
    if (nearest && of_this >= distance) continue;
    distance = of_this;
    nearest = {.kernel = each, .differences = *std::move(of_each)};
  }
  return nearest;
}

std::string to_text(std::span<const FieldDifference> differences) {
  std::string text;
  for (const FieldDifference& one : differences) {
    text += fmt::format("{}{} ({} there, {} wanted)", text.empty() ? "" : ", ", one.field,
                        one.there, one.wanted);
  }
  return text;
}

std::string name_of(const ListedKernel& kernel) {
  constexpr std::size_t k_shown_digits = 12;
  const std::string layer =
      kernel.layer.empty() ? "" : fmt::format("layer '{}' of ", printable(kernel.layer));
  return fmt::format("{}'{}', key {}", layer, kernel.where, kernel.key.substr(0, k_shown_digits));
}

std::string missing_kernel_text(const FamilyRequest& request, const WantedKernel& wanted,
                                std::span<const ListedKernel> there) {
  const CsrMatrix& a = *request.problem.a;
  const std::string columns =
      request.problem.n.runtime ? "any" : fmt::format("{}", request.problem.n.value);
  std::string text = fmt::format(
      "no cache has a kernel of A [{} x {}] with {} nonzeros for {} with n = {}, and spjit may not "
      "compile one here",
      a.rows, a.cols, a.row_ptrs.back(), wanted.target, columns);
  std::map<std::string, std::size_t> counts;
  for (const ListedKernel& each : there) ++counts[each.where];
  std::string places;
  for (const auto& [where, count] : counts) {
    places += fmt::format("{}{} kernels in '{}'", places.empty() ? "" : ", ", count, where);
  }
  const std::string kinds = kinds_of_matrix(wanted, there);
  text += fmt::format("; there are {}, of this A {}", places.empty() ? "no kernels" : places,
                      kinds.empty() ? "none" : kinds);
  const std::optional<NearKernel> nearest = nearest_kernel(wanted, there);
  if (nearest && has_same_matrix(nearest->differences)) {
    text += fmt::format("; the nearest, {}, differs in {}", name_of(nearest->kernel),
                        to_text(nearest->differences));
  }
  return text + fmt::format(
                    "; where compiling is allowed, as in CI, run 'spjit compile FILE --n {} "
                    "--target {} -o model.spjit' of spjit {} with the other options of "
                    "this layer, and name model.spjit as a layer of the cache",
                    columns, wanted.target, SPJIT_VERSION);
}

}  // namespace spjit
