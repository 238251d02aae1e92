#include "manual.hpp"

#include <fmt/format.h>

#include <memory>

namespace spjit::cli {
namespace {

constexpr std::size_t k_indent = 4;
constexpr std::size_t k_text_indent = 8;

constexpr std::string_view k_environment =
    "SPJIT_CACHE_DIR\n"
    "    The cache directory, unless --cache names one. Without it, $XDG_CACHE_HOME/spjit, else "
    "$HOME/.cache/spjit; for root only if these are root's.\n"
    "\n"
    "SPJIT_CACHE_SIZE\n"
    "    What the kernels in the cache directory may have, unless --cache-size says so, such as "
    "2G; "
    "0 is no limit. Without it, 4G.\n"
    "\n"
    "SPJIT_CACHE_LAYERS\n"
    "    Cache directories that are only read, separated by ':', unless --cache-layer names some.\n"
    "\n"
    "SPJIT_CACHE_UNSAFE\n"
    "    1 is the same as --cache-unsafe.\n"
    "\n"
    "SPJIT_NUM_THREADS\n"
    "    The threads that --threads 0 stands for, instead of all CPUs this process may use.\n"
    "\n"
    "NO_COLOR\n"
    "    If set and not empty, no colour even on a terminal.\n"
    "\n"
    "TERM\n"
    "    On \"dumb\", no colour and no progress bar.";

constexpr std::string_view k_exit_status =
    "0   Everything was done.\n"
    "\n"
    "1   Some inputs failed, and the others were done. Each failure is one line \"spjit: error: "
    "...\" on standard error.\n"
    "\n"
    "2   The command line or an environment variable is wrong. Nothing was done.\n"
    "\n"
    "3   Every input failed, or something the command needs is not there: the output or cache "
    "directory cannot be used, no such cache or cache entry, standard output cannot be written.";

// One line of the source becomes lines of at most `columns`; what it is indented by, they all are.
std::string wrap_line(std::string_view line, std::size_t indent, std::size_t columns) {
  const std::size_t own = std::min(line.find_first_not_of(' '), line.size());
  const std::string margin(indent + own, ' ');
  std::string text;
  std::string current = margin;
  for (line.remove_prefix(own); !line.empty();) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (current.size() > margin.size() && current.size() + 1 + word.size() > columns) {
      text += current + "\n";
      current = margin;
    }
    if (current.size() > margin.size()) current += ' ';
    current += word;
    line.remove_prefix(std::min(word.size() + 1, line.size()));
  }
  return text + (current.size() > margin.size() ? current : "") + "\n";
}

std::string section(std::string_view title, std::string_view text) {
  return fmt::format("\n{}\n{}", title, wrap(text, k_indent));
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
  explicit ManualFormatter(Manual manual) : manual_(std::move(manual)) {}

  [[nodiscard]] std::string make_help(const CLI::App* app, std::string /*name*/,
                                      CLI::AppFormatMode /*mode*/) const override {
    std::string text = fmt::format("NAME\n    {} - {}\n", manual_.name, manual_.summary);
    text += "\nSYNOPSIS\n";
    for (const std::string& line : manual_.synopsis) {
      text += fmt::format("    {} {}\n", manual_.name, line);
    }
    text += section("DESCRIPTION", manual_.description) + commands(*app) + options(*app);
    text += section("ENVIRONMENT", k_environment) + section("EXIT STATUS", k_exit_status);
    text += "\nEXAMPLES\n";
    for (const std::string& line : manual_.examples) text += fmt::format("    {}\n", line);
    return text;
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

  Manual manual_;
};

}  // namespace

std::string wrap(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string wrapped;
  while (true) {
    const std::size_t end = text.find('\n');
    wrapped += wrap_line(text.substr(0, end), indent, columns);
    if (end == std::string_view::npos) return wrapped;
    text.remove_prefix(end + 1);
  }
}

void set_manual(CLI::App& app, Manual manual) {
  app.description(manual.summary);
  app.set_help_flag("-h,--help", "Print this manual page and exit.");
  app.formatter(std::make_shared<ManualFormatter>(std::move(manual)));
}

}  // namespace spjit::cli
