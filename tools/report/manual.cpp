#include "tools/report/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace spjit::cli {
namespace {

constexpr std::size_t k_indent = 4;
constexpr std::size_t k_text_indent = 8;
constexpr std::size_t k_columns = 79;
constexpr std::string_view k_before_summary = " - ";
constexpr std::string_view k_examples = "\nEXAMPLES\n";

std::string_view text_of(std::string_view page) {
  const auto found = std::ranges::find(k_manual_pages, page, &EmbeddedFile::name);
  if (found == k_manual_pages.end()) {
    throw std::logic_error(fmt::format("there is no tools/manual/{}.txt", page));
  }
  return {reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()};
}

// What stands between two marks.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  const std::size_t to = text.find(end, from);
  if (from == std::string_view::npos || to == std::string_view::npos) {
    throw std::logic_error(fmt::format("a manual page has no '{}'", begin));
  }
  return text.substr(from + begin.size(), to - from - begin.size());
}

// One line of the source becomes lines of at most k_columns; what it is indented by, they all are.
std::string wrap_line(std::string_view line, std::size_t indent) {
  const std::size_t own = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin(indent + own, ' ');
  std::string text;
  std::string current = margin;
  for (line.remove_prefix(own); !line.empty();) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (current.size() > margin.size() && current.size() + 1 + word.size() > k_columns) {
      text += current + "\n";
      current = margin;
    }
    if (current.size() > margin.size()) current += ' ';
    current += word;
    line.remove_prefix(std::min(word.size() + 1, line.size()));
  }
  return text + (current.size() > margin.size() ? current : "") + "\n";
}

// Breaks text at spaces into lines that begin with `indent` spaces.
std::string wrap(std::string_view text, std::size_t indent) {
  std::string wrapped;
  while (true) {
    const std::size_t end = text.find('\n');
    wrapped += wrap_line(text.substr(0, end), indent);
    if (end == std::string_view::npos) return wrapped;
    text.remove_prefix(end + 1);
  }
}

std::string option_heading(const CLI::Option& option) {
  std::string names = option.get_positional() ? option.get_name(true) : "";
  if (!option.get_positional()) {
    for (const std::string& name : option.get_snames()) names += fmt::format("-{}, ", name);
    for (const std::string& name : option.get_lnames()) names += fmt::format("--{}, ", name);
    names.erase(names.size() - 2);
  }
  // "COUNT:INT in [1 - 9]": what follows the colon are the checks, which the text explains.
  const std::string full_type = option.get_positional() ? "" : option.get_type_name();
  const std::string type = full_type.substr(0, full_type.find(':'));
  return names + (type.empty() ? "" : " " + type) + (option.get_required() ? "  (required)" : "");
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) {
    text += fmt::format(" Default: {}.", option.get_default_str());
  }
  return fmt::format("{:{}}{}\n{}", "", k_indent, option_heading(option),
                     wrap(text, k_text_indent));
}

class ManualFormatter : public CLI::Formatter {
 public:
  explicit ManualFormatter(std::string_view page) : page_(page) {}

  [[nodiscard]] std::string make_help(const CLI::App* app, std::string /*name*/,
                                      CLI::AppFormatMode /*mode*/) const override {
    const std::size_t examples = page_.find(k_examples);
    return fmt::format("{}{}{}\n{}{}", page_.substr(0, examples), commands(*app), options(*app),
                       text_of("common"), page_.substr(examples));
  }

 private:
  static std::string commands(const CLI::App& app) {
    const auto list = app.get_subcommands([](const CLI::App*) { return true; });
    std::string text = list.empty() ? "" : "\nCOMMANDS\n";
    for (const CLI::App* command : list) {
      text += fmt::format("    {:<10}{}\n", command->get_name(), command->get_description());
    }
    return text;
  }

  static std::string options(const CLI::App& app) {
    std::string positional;
    std::string named;
    for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
      std::string& list = option->get_positional() ? positional : named;
      list += (list.empty() ? "" : "\n") + option_text(*option);
    }
    return (positional.empty() ? "" : "\nARGUMENTS\n" + positional) +
           (named.empty() ? "" : "\nOPTIONS\n" + named);
  }

  std::string_view page_;
};

}  // namespace

void set_manual(CLI::App& app, std::string_view page) {
  const std::string_view text = text_of(page);
  static_cast<void>(between(text, "\nDESCRIPTION\n", k_examples));
  app.description(std::string(between(text, k_before_summary, "\n")));
  app.set_help_flag("-h,--help", "Print this manual page and exit.");
  app.formatter(std::make_shared<ManualFormatter>(text));
}

}  // namespace spjit::cli
