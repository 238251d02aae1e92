// Runs a fuzz target without libFuzzer, on files and on seeded mutations of them:
//
//     fuzz_replay_NAME [--mutations N] FILE-OR-FOLDER...
//
// Folders that are absent are left out. Each input is written to fuzz_replay_NAME.input in the
// current folder before it runs, and stays there after a finding.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file_bytes.hpp"
#include "matrix/random.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace {

using spjit::RandomStream;
using Input = std::vector<std::byte>;

// Mutations of more than this are slow and hit less.
constexpr std::size_t k_longest_mutated = std::size_t{16} << 10;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  if (is_regular_file(path)) files.push_back(path);
  if (!is_directory(path)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Input part_of(const Input& input, RandomStream& random) {
  if (input.empty()) return {};
  const std::size_t begin = random.below(input.size());
  const std::size_t most = std::min<std::size_t>(input.size() - begin, 64);
  const std::size_t length = 1 + random.below(most);
  const auto at = input.begin() + static_cast<std::ptrdiff_t>(begin);
  return {at, at + static_cast<std::ptrdiff_t>(length)};
}

// A bit, a likely byte, or two to eight bytes of ones or zeros.
void change(Input& input, std::size_t at, RandomStream& random) {
  constexpr std::string_view k_likely = "0123456789-+.eE, \n\r%'\"(){}[]:naif";
  switch (random.below(3)) {
    case 0:
      input[at] ^= std::byte{1} << random.below(8);
      break;
    case 1:
      input[at] = static_cast<std::byte>(k_likely[random.below(k_likely.size())]);
      break;
    default: {
      const std::byte fill = random.below(2) == 0 ? std::byte{0} : std::byte{0xFF};
      const std::size_t count = std::min<std::size_t>(2 + random.below(7), input.size() - at);
      std::fill_n(input.begin() + static_cast<std::ptrdiff_t>(at), count, fill);
    }
  }
}

// One to five edits: bytes changed, a stretch removed, repeated, or taken from `other`.
Input mutated(Input input, const Input& other, RandomStream& random) {
  for (std::uint64_t edit = 1 + random.below(5); edit > 0 && !input.empty(); --edit) {
    const std::size_t at = random.below(input.size());
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(4)) {
      case 0: {
        const std::size_t length = 1 + random.below(std::min<std::size_t>(input.size() - at, 64));
        input.erase(place, place + static_cast<std::ptrdiff_t>(length));
        break;
      }
      case 1: {
        const Input part = part_of(random.below(2) == 0 ? input : other, random);
        input.insert(place, part.begin(), part.end());
        break;
      }
      default:
        change(input, at, random);
    }
  }
  return input;
}

/// A file that holds the last input. It stays open: some file systems bring a file that is emptied
/// and written again to the disk whenever it is closed, in milliseconds.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (file_ < 0) throw std::runtime_error("cannot write " + path_.string());
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() { ::close(file_); }

  void write(const Input& input) const {
    const bool written = ::ftruncate(file_, 0) == 0 &&
                         ::pwrite(file_, input.data(), input.size(), 0) == std::ssize(input);
    if (!written) throw std::runtime_error("cannot write " + path_.string());
  }

  void remove() const { std::filesystem::remove(path_); }

 private:
  std::filesystem::path path_;
  int file_;
};

class Replay {
 public:
  explicit Replay(const std::filesystem::path& program)
      : input_file_(program.filename().string() + ".input") {}

  void run(Input input) {
    input_file_.write(input);
    input.shrink_to_fit();  // reading past its end is noticed
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++runs_;
  }

  void mutate(const std::vector<Input>& inputs, std::uint64_t count) {
    if (inputs.empty()) return;
    RandomStream random(20260607);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Input& other = inputs[random.below(inputs.size())];
      run(mutated(inputs[i % inputs.size()], other, random));
    }
  }

  /// To be called when nothing was found.
  void finish() const {
    input_file_.remove();
    std::printf("%llu inputs, no finding\n", static_cast<unsigned long long>(runs_));
  }

 private:
  InputFile input_file_;
  std::uint64_t runs_ = 0;
};

int replay(const std::vector<std::string>& arguments) {
  Replay replay(arguments.at(0));
  std::uint64_t mutations = 0;
  std::vector<Input> short_inputs;
  std::size_t files = 0;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--mutations") {
      const std::string& number = arguments.at(++i);
      std::from_chars(number.data(), number.data() + number.size(), mutations);
      continue;
    }
    for (const std::filesystem::path& file : files_in(arguments[i])) {
      const Input input = spjit::read_file(file);
      std::printf("%s\n", file.c_str());
      std::fflush(stdout);
      replay.run(input);
      ++files;
      if (input.size() <= k_longest_mutated) short_inputs.push_back(input);
    }
  }
  if (files == 0) {
    std::fprintf(stderr, "no file was given; expected [--mutations N] FILE-OR-FOLDER...\n");
    return 2;
  }
  replay.mutate(short_inputs, mutations);
  replay.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    LLVMFuzzerInitialize(&argc, &argv);
    return replay({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
