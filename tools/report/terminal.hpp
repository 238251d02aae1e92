#pragma once

/// @file
/// Output of the command line: results on stdout, progress and errors on stderr. Colour and a
/// progress bar appear only on a terminal.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/printable.hpp"

namespace spjit::cli {

/// Keeps the order in which keys were added.
using Json = nlohmann::ordered_json;

/// The abilities of a stream.
struct Terminal {
  bool interactive = false;  ///< a terminal that can move its cursor: a progress bar makes sense
  bool colour = false;       ///< a terminal, and NO_COLOR is not set
  std::int64_t columns = 80;
};

[[nodiscard]] Terminal inspect_stdout();
[[nodiscard]] Terminal inspect_stderr();

/// The text in bold (or as it is, without colour).
[[nodiscard]] std::string bold(std::string_view text, const Terminal& terminal);

/// The name of a file, fit for one line of a terminal: one_line().
[[nodiscard]] std::string shown(const std::filesystem::path& path);

/// A document as text, indented. Of what a terminal might obey nothing is left: control characters
/// are escaped, and text that is not UTF-8 (file names) gets U+FFFD.
[[nodiscard]] std::string json_text(const Json& document);

/// `text` to stdout as it is. Throws IoError if it cannot be written.
void print(std::string_view text);

/// json_text() and the end of the line to stdout.
void print_json(const Json& document);

/// `text` to stderr as it is. Nothing can be done about a stderr that is gone.
void write_stderr(std::string_view text);

/// `spjit: error: <message>` to stderr, as one_line().
void print_error(std::string_view message);

/// `spjit: note: <message>` to stderr, as one_line().
void print_note(std::string_view message);

/// Writes what stdout still buffers. Throws IoError if it cannot be written (a full disk).
void flush_stdout();

/// Progress through a number of inputs on stderr: a bar on a terminal, a line for each that is
/// done; as one_line(). The bar is gone when the object is.
class Progress {
 public:
  Progress(Terminal terminal, std::size_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// Work on the next input begins.
  void begin(std::string_view name);
  /// It is done, and there is nothing to say about it.
  void finish();
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
