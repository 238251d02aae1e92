#include "bench/gpu/gpu_bench_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "base/number_text.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr std::string_view k_figures[] = {"ranks", "searches"};

template <typename Number>
Number number_of(const std::string& name, const std::string& text) {
  const std::optional<Number> number = read_number<Number>(text);
  if (!number || *number < Number{}) {
    throw InvalidArgument(fmt::format("{} '{}'; expected a number of at least 0", name, text));
  }
  return *number;
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) items.push_back(item);
  return items;
}

using Setter =
    std::function<void(GpuBenchArguments&, const std::string& name, const std::string& value)>;

void set_mode(GpuBenchArguments& to, GpuBenchMode mode, const std::string& folder) {
  if (to.mode != GpuBenchMode::measure) {
    throw InvalidArgument("--precompile and --check-cubins do not go together");
  }
  to.mode = mode;
  to.cubins = folder;
}

const std::map<std::string, Setter>& setters() {
  using Text = const std::string&;
  static const std::map<std::string, Setter> k_setters = {
      {"--figures", [](auto& to, Text, Text value) { to.figures = list_of(value); }},
      {"--json", [](auto& to, Text, Text value) { to.json = value; }},
      {"--max-minutes",
       [](auto& to, Text name, Text value) { to.max_minutes = number_of<double>(name, value); }},
      {"--tiles", [](auto& to, Text name,
                     Text value) { to.bench.most_tiles = number_of<std::size_t>(name, value); }},
      {"--first",
       [](auto& to, Text name, Text value) { to.first = number_of<std::size_t>(name, value); }},
      {"--device",
       [](auto& to, Text name, Text value) { to.bench.device = number_of<int>(name, value); }},
      {"--cubins", [](auto& to, Text, Text value) { to.cubins = value; }},
      {"--target", [](auto& to, Text, Text value) { to.target = value; }},
      {"--precompile",
       [](auto& to, Text, Text value) { set_mode(to, GpuBenchMode::precompile, value); }},
      {"--check-cubins",
       [](auto& to, Text, Text value) { set_mode(to, GpuBenchMode::check_cubins, value); }}};
  return k_setters;
}

void check(const GpuBenchArguments& arguments) {
  const bool fills = arguments.mode == GpuBenchMode::precompile;
  if (fills && arguments.target.empty()) {
    throw InvalidArgument("--precompile needs --target CARD, say sm_90:h100");
  }
  if (!fills && !arguments.target.empty()) throw InvalidArgument("--target is of --precompile");
  if (arguments.mode == GpuBenchMode::check_cubins) return;  // of any step of scripts/gpu/gpu.sh
  for (const std::string& figure : arguments.figures) {
    if (std::ranges::find(k_figures, figure) == std::end(k_figures)) {
      throw InvalidArgument(
          fmt::format("no figure '{}'; expected some of {}", figure, fmt::join(k_figures, ",")));
    }
  }
}

}  // namespace

bool GpuBenchArguments::wants(std::string_view figure) const {
  return figures.empty() || std::ranges::find(figures, figure) != figures.end();
}

GpuBenchArguments parse_gpu_bench(const std::vector<std::string>& arguments) {
  GpuBenchArguments parsed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--check-only") {
      parsed.bench.check_only = true;
      continue;
    }
    if (name == "--append") {
      parsed.append = true;
      continue;
    }
    const auto setter = setters().find(name);
    if (setter == setters().end()) throw InvalidArgument(fmt::format("unknown argument {}", name));
    if (i + 1 >= arguments.size()) throw InvalidArgument(fmt::format("{}: needs a value", name));
    setter->second(parsed, name, arguments[++i]);
  }
  check(parsed);
  return parsed;
}

}  // namespace spjit::bench
