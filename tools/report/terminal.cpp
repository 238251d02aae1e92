#include "tools/report/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/environment.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_bar_width = 24;
constexpr std::string_view k_bold = "\x1b[1m";
constexpr std::string_view k_bold_red = "\x1b[1;31m";
constexpr std::string_view k_plain = "\x1b[0m";

Terminal inspect(int descriptor) {
  Terminal terminal;
  if (::isatty(descriptor) == 0) return terminal;
  const TerminalEnvironment environment = read_terminal_environment();
  terminal.interactive = environment.term != "dumb";
  terminal.colour = terminal.interactive && !environment.no_color;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  return terminal;
}

[[noreturn]] void throw_write_error() {
  throw IoError(
      fmt::format("standard output: cannot be written: {}; check the disk or pipe behind "
                  "it",
                  std::generic_category().message(errno)));
}

void print_labelled(std::string_view label, std::string_view colour, std::string_view message) {
  const bool coloured = inspect_stderr().colour;
  write_stderr(fmt::format("spjit: {}{}:{} {}\n", coloured ? colour : "", label,
                           coloured ? k_plain : "", one_line(message)));
}

}  // namespace

void write_stderr(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

Terminal inspect_stdout() { return inspect(STDOUT_FILENO); }

Terminal inspect_stderr() { return inspect(STDERR_FILENO); }

std::string bold(std::string_view text, const Terminal& terminal) {
  return terminal.colour ? fmt::format("{}{}{}", k_bold, text, k_plain) : std::string(text);
}

std::string shown(const std::filesystem::path& path) { return one_line(path.string()); }

std::string json_text(const Json& document) {
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : ' ');
    if (code == 0x7F) {
      escaped += "\\u007f";
    } else if (code == 0xC2 && next < 0xA0) {  // U+0080 to U+009F; JSON escapes those below U+0020
      escaped += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw_write_error();
}

void print_json(const Json& document) { print(json_text(document) + "\n"); }

void print_error(std::string_view message) { print_labelled("error", k_bold_red, message); }

void print_note(std::string_view message) { print_labelled("note", k_bold, message); }

void flush_stdout() {
  if (std::fflush(stdout) != 0) throw_write_error();
}

Progress::Progress(Terminal terminal, std::size_t total) : terminal_(terminal), total_(total) {}

Progress::~Progress() { erase(); }

void Progress::begin(std::string_view name) {
  name_ = one_line(name);
  draw();
}

void Progress::finish() {
  ++done_;
  erase();
  draw();
}

void Progress::finish(std::string_view line) {
  ++done_;
  erase();
  write_stderr(fmt::format("[{}/{}] {}\n", done_, total_, one_line(line)));
  draw();
}

void Progress::fail(std::string_view message) {
  ++done_;
  erase();
  print_error(message);
  draw();
}

void Progress::draw() const {
  if (!terminal_.interactive || total_ == 0) return;
  const std::size_t filled = k_bar_width * done_ / total_;
  std::string bar = fmt::format("[{:=<{}}{: <{}}] {}/{} {}", "", filled, "", k_bar_width - filled,
                                done_, total_, done_ < total_ ? name_ : "");
  // A line that wraps cannot be erased.
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(terminal_.columns - 1, 1));
  if (bar.size() > width) bar.resize(width);
  write_stderr(bar);
}

void Progress::erase() const {
  if (terminal_.interactive) write_stderr("\r\x1b[K");
}

}  // namespace spjit::cli
