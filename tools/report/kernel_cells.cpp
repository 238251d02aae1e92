#include "tools/report/kernel_cells.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/layout.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

// A member of a record that another version may have written otherwise.
std::string member(const nlohmann::json& kernel, const char* pointer) {
  const nlohmann::json::json_pointer path(pointer);
  if (!kernel.contains(path)) return "";
  const nlohmann::json& value = kernel.at(path);
  // A record of somebody else's is not to write to the terminal as it likes.
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

/// "any:128", "512".
std::string columns_of(const nlohmann::json& kernel) {
  const bool any = member(kernel, "/problem/n/runtime") == "true";
  return (any ? "any:" : "") + member(kernel, "/problem/n/value");
}

/// What is computed beside A * B, feature by feature: "conv3x3 tokens bias gelu",
/// "tokens,features".
std::string layer_of(const nlohmann::json& kernel) {
  const std::string b = member(kernel, "/problem/b/layout");
  const std::string c = member(kernel, "/problem/c/layout");
  std::string text = b == c ? b : fmt::format("{},{}", b, c);
  if (text == to_string(Layout::row_major)) text.clear();
  const auto add = [&text](const std::string& word) {
    text += (text.empty() || word.empty() ? "" : " ") + word;
  };
  if (const std::string height = member(kernel, "/problem/convolution/kernel/0"); !height.empty()) {
    const std::string width = member(kernel, "/problem/convolution/kernel/1");
    text = fmt::format("conv{}x{}{}{}", height, width, text.empty() ? "" : " ", text);
  }
  for (const char* operand : {"scale", "bias", "residual"}) {
    const std::string path = fmt::format("/problem/epilogue/{}", operand);
    if (member(kernel, path.c_str()) == "true") add(operand);
  }
  const std::string activation = member(kernel, "/problem/epilogue/activation");
  if (activation != to_string(Activation::none)) add(activation);
  if (member(kernel, "/problem/runtime_values") == "true") add("runtime-values");
  return text;
}

}  // namespace

std::vector<Column> kernel_columns() {
  using enum Column::Align;
  return {{"shape"},        {"nnz"},          {"n"},         {"layer", left}, {"threads"},
          {"target", left}, {"family", left}, {"tile", left}};
}

std::vector<std::string> kernel_cells(const nlohmann::json& record) {
  const std::string rows = member(record, "/matrix/rows");
  std::vector<std::string> cells = {rows.empty() ? "" : rows + "x" + member(record, "/matrix/cols"),
                                    member(record, "/matrix/nnz"), columns_of(record),
                                    layer_of(record)};
  for (const char* pointer : {"/threads", "/target", "/family", "/tile/name"}) {
    cells.push_back(member(record, pointer));
  }
  return cells;
}

std::string kernels_line(const std::filesystem::path& path, std::size_t kernels,
                         std::int64_t bytes) {
  return fmt::format("{}: {} kernels, {}\n", shown(path), kernels, size_text(bytes));
}

std::string size_text(std::int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace spjit::cli
