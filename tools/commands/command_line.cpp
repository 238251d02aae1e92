#include "tools/commands/command_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tools/commands/subcommands.hpp"
#include "tools/options/kernel_options.hpp"
#include "tools/report/manual.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {
namespace {

void describe_tool(CLI::App& app) {
  set_manual(app, "spjit");
  app.set_version_flag("--version", "spjit " SPJIT_VERSION, "Print the version and exit.");
  app.require_subcommand(1);
}

/// The commands on the command line, as far as the parser came: of `spjit bundle merge` three.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands = {&app};
  while (!commands.back()->get_subcommands().empty()) {
    commands.push_back(commands.back()->get_subcommands().front());
  }
  return commands;
}

void refuse_values_of_flags(CLI::App& app) {
  take_no_values(app);
  for (CLI::App* each : app.get_subcommands({})) refuse_values_of_flags(*each);
}

ExitCode usage_error(const std::string& message, const CLI::App& app) {
  std::string command = "spjit";
  for (const CLI::App* each : commands_of(app)) {
    if (each != &app) command += " " + each->get_name();
  }
  print_error(fmt::format("{}; see '{} --help'", message, command));
  return ExitCode::usage;
}

/// The word that stands where a command should, and what should stand there; nothing: there is
/// none.
std::optional<std::string> find_unknown_command(const CLI::App& app) {
  const CLI::App* deepest = commands_of(app).back();
  if (deepest->get_require_subcommand_min() == 0) return std::nullopt;
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty() || left.front().starts_with('-')) return std::nullopt;
  std::vector<std::string> known;
  for (const CLI::App* each : deepest->get_subcommands({})) known.push_back(each->get_name());
  const std::string last = known.back();
  known.pop_back();
  return fmt::format("'{}' is no command; expected {} or {}", left.front(), fmt::join(known, ", "),
                     last);
}

// The subcommand on the command line, if the parser came that far.
const Subcommand* find_chosen(const std::vector<Subcommand>& subcommands) {
  const auto chosen =
      std::find_if(subcommands.begin(), subcommands.end(),
                   [](const Subcommand& subcommand) { return subcommand.parser->parsed(); });
  return chosen == subcommands.end() ? nullptr : &*chosen;
}

/// An option that may do without a value and was given an empty one, as of a variable of a script
/// that is not set. The parser takes that for none.
std::optional<std::string> find_empty_value(const CLI::App& command, int argc,
                                            const char* const* argv) {
  const auto may_lack_a_value = [&](const std::string& name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option != nullptr && option->get_expected_min() == 0 && option->get_expected_max() > 0;
  };
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    std::string name = argv[i];
    const bool ends_in_empty = name.ends_with('=') || (i + 1 < argc && *argv[i + 1] == '\0');
    if (!ends_in_empty) continue;
    name.erase(std::min(name.find('='), name.size()));
    if (may_lack_a_value(name)) return name;
  }
  return std::nullopt;
}

std::vector<Subcommand> add_subcommands(CLI::App& app, const ModelConverter& convert) {
  return {add_compile(app, convert),
          add_inspect(app, convert),
          add_plan(app, convert),
          add_work(app, convert),
          add_bench(app, convert),
          add_explain(app, convert),
          add_gen(app),
          add_quantize(app),
          add_cache(app, convert),
          add_bundle(app),
          add_devices(app),
          add_collect(app),
          add_train(app)};
}

ExitCode run(int argc, const char* const* argv, const ModelConverter& convert) {
  CLI::App app;
  describe_tool(app);
  const std::vector<Subcommand> subcommands = add_subcommands(app, convert);
  refuse_values_of_flags(app);
  try {
    app.parse(argc, argv);
    if (const auto option = find_empty_value(*find_chosen(subcommands)->parser, argc, argv)) {
      return usage_error(fmt::format("{}: expected a path, not an empty text", *option), app);
    }
  } catch (const CLI::CallForHelp&) {
    if (const auto unknown = find_unknown_command(app)) return usage_error(*unknown, app);
    print(app.help());
    return ExitCode::ok;
  } catch (const CLI::CallForVersion& version) {
    print(fmt::format("{}\n", version.what()));
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    return usage_error(find_unknown_command(app).value_or(problem_of(error)), app);
  } catch (const Error& error) {
    return usage_error(error.what(), app);
  }
  try {
    return find_chosen(subcommands)->run();
  } catch (const UsageError& error) {
    return usage_error(error.what(), app);
  } catch (const InvalidArgument& error) {
    // Options that only the library can judge. What is wrong with an input is handled inside.
    return usage_error(error.what(), app);
  }
}

ExitCode run_and_report(int argc, const char* const* argv, const ModelConverter& convert) {
  try {
    const ExitCode code = run(argc, argv, convert);
    flush_stdout();
    return code;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use smaller matrices or fewer columns (--n)");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return ExitCode::failed;
}

/// A standard stream that is closed would become the next file that is opened, and messages would
/// go into that. /dev/null is opened in its place, for the other direction, so that reading and
/// writing fail as before.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is the stream's: those below it are open.
    static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int run_command_line(int argc, const char* const* argv, const ModelConverter& convert) {
  occupy_closed_streams();
  // `spjit ... | head` ends here as other filters do, even where a parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  // A file over the limit (ulimit -f) is an error of writing, with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  return static_cast<int>(run_and_report(argc, argv, convert));
}

}  // namespace spjit::cli
