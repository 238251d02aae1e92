#pragma once

/// @file
/// What is written where: results on stdout, progress and errors on stderr, colour and a progress
/// bar only on a terminal.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spjit::cli {

/// Keeps the order in which keys were added.
using Json = nlohmann::ordered_json;

/// What a stream can show.
struct Terminal {
  bool interactive = false;  ///< a terminal that can move its cursor: a progress bar makes sense
  bool colour = false;       ///< a terminal, and NO_COLOR is not set
  std::int64_t columns = 80;
};

[[nodiscard]] Terminal inspect_stdout();
[[nodiscard]] Terminal inspect_stderr();

/// The text in bold (or as it is, without colour).
[[nodiscard]] std::string bold(std::string_view text, const Terminal& terminal);

/// Text that somebody else wrote, fit for one line of a terminal: at most `longest` characters,
/// nothing unprintable.
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = 200);

/// `text` to stdout as it is. Throws IoError if it cannot be written.
void print(std::string_view text);

/// One JSON document to stdout. Text that is not UTF-8 (file names) gets U+FFFD.
void print_json(const Json& document);

/// `text` to stderr as it is. Nothing can be done about a stderr that is gone.
void write_stderr(std::string_view text);

/// `spjit: error: <first line of message>` to stderr.
void print_error(std::string_view message);

/// `spjit: note: <first line of message>` to stderr.
void print_note(std::string_view message);

/// Writes what stdout still buffers. Throws IoError if it cannot be written (a full disk).
void flush_stdout();

/// Progress through a number of inputs on stderr: a bar on a terminal, a line for each that is
/// done. The bar is gone when the object is.
class Progress {
 public:
  Progress(Terminal terminal, std::size_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Work on the next input begins.
  void begin(std::string_view name);
  /// It is done: its line appears above the bar.
  void finish(std::string_view line);
  /// It failed: an error line appears above the bar.
  void fail(std::string_view message);

 private:
  void draw() const;
  void erase() const;

  Terminal terminal_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::string name_;
};

}  // namespace spjit::cli
