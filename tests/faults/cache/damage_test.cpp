/// @file
/// Entries that someone or something changed on the disk.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "fault_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing_support::make_writable;
using testing_support::TemporaryDirectory;

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_all(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The entries of two kernels as they were published, and a cache in which one is damaged again and
/// again.
class CacheDamage : public testing::Test {
 protected:
  static constexpr std::int64_t k_kernel = 0;
  static constexpr std::int64_t k_other = 1;

  CacheDamage() {
    entry_ = entry_path(root_, kernels_.compile(root_, k_kernel).info.key);
    other_entry_ = entry_path(root_, kernels_.compile(root_, k_other).info.key);
    fs::copy(entry_, scratch_.path() / "whole", fs::copy_options::recursive);
  }

  [[nodiscard]] const fs::path& entry() const { return entry_; }
  [[nodiscard]] const fs::path& other_entry() const { return other_entry_; }
  [[nodiscard]] fs::path whole(const std::string& name) const {
    return scratch_.path() / "whole" / name;
  }

  /// Damages the entry, compiles, and says what is wrong if it was not noticed, set aside, and
  /// replaced by a good one.
  [[nodiscard]] std::string after(const std::function<void()>& damage) const {
    for (const char* name : {"kernel.o", "record.json"}) make_writable(entry() / name);
    damage();
    const KernelCases::Outcome outcome = kernels_.compile(root_, k_kernel);
    if (!outcome.problem.empty()) return outcome.problem;
    if (outcome.info.from_cache) return "it was believed";
    if (outcome.info.note.find(outcome.info.key) == std::string::npos) {
      return "no note names it: " + outcome.info.note;
    }
    if (!fs::exists(root_ / "damaged")) return "it was not set aside";
    fs::remove_all(root_ / "damaged");
    return kernels_.problem_of_hit(root_, k_kernel);
  }

  /// After all of it the other kernel is still there and nothing else is.
  [[nodiscard]] std::string at_the_end() const {
    const Audit now = audit(root_);
    if (now.entries != 2 || now.temporaries + now.damaged != 0) return "not two entries only";
    return first_of({now.problem, kernels_.problem_of_hit(root_, k_other)});
  }

 private:
  TemporaryDirectory scratch_;
  KernelCases kernels_{2};
  fs::path root_ = scratch_.path() / "cache";
  fs::path entry_;
  fs::path other_entry_;
};

TEST_F(CacheDamage, EveryByteIsNoticed) {
  Tally tally("entry corrupted byte by byte");
  const auto step = static_cast<std::size_t>(sized(41, 1));
  for (const char* name : {"kernel.o", "record.json"}) {
    const std::string good = read_all(whole(name));
    for (std::size_t i = 0; i < good.size(); i += step) {
      for (const int flip : {0x01, 0xFF}) {
        const std::string where = fmt::format("{} byte {} xor {:#x}", name, i, flip);
        std::string bad = read_all(entry() / name);
        if (i >= bad.size()) break;  // times in the record have more digits or fewer
        bad[i] = static_cast<char>(bad[i] ^ flip);

        tally.check(where, after([&] { write_all(entry() / name, bad); }));

        tally.count("corrupted bytes");
      }
    }
  }
  tally.check("at the end", at_the_end());
}

TEST_F(CacheDamage, EveryLengthIsNoticed) {
  Tally tally("entry truncated and extended");
  const auto step = static_cast<std::size_t>(sized(97, 7));
  for (const char* name : {"kernel.o", "record.json"}) {
    const std::size_t size = read_all(whole(name)).size();
    for (std::size_t bytes = 0; bytes < size; bytes += step) {
      const std::string where = fmt::format("{} cut to {} bytes", name, bytes);
      tally.check(where, after([&] { fs::resize_file(entry() / name, bytes); }));
      tally.count("truncations");
    }
    for (const std::size_t more : {1U, 7U, 4096U, 1U << 20U}) {
      const std::string where = fmt::format("{} made {} bytes longer", name, more);
      tally.check(where, after([&] {
                    fs::resize_file(entry() / name, fs::file_size(entry() / name) + more);
                  }));
      tally.count("extensions");
    }
  }
  tally.check("at the end", at_the_end());
}

TEST_F(CacheDamage, OtherThingsInPlaceOfFilesAreNoticed) {
  Tally tally("other things in place of files");
  for (const char* name : {"kernel.o", "record.json"}) {
    const fs::path file = entry() / name;
    const std::vector<std::pair<std::string, std::function<void()>>> damages = {
        {"missing", [&] { fs::remove(file); }},
        {"of another kernel",
         [&] { fs::copy_file(other_entry() / name, file, fs::copy_options::overwrite_existing); }},
        {"a directory",
         [&] {
           fs::remove(file);
           fs::create_directory(file);
         }},
        {"a link to itself as it was",
         [&] {
           fs::remove(file);
           fs::create_symlink(whole(name), file);
         }},
        {"a link to nothing",
         [&] {
           fs::remove(file);
           fs::create_symlink("nothing", file);
         }},
        {"a pipe",
         [&] {
           fs::remove(file);
           ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
         }},
        {"one of 1 TB", [&] { fs::resize_file(file, std::uintmax_t{1} << 40U); }}};
    for (const auto& [what, damage] : damages) {
      tally.check(fmt::format("{} {}", name, what), after(damage));
      tally.count("things");
    }
  }
  tally.check("at the end", at_the_end());
}

TEST_F(CacheDamage, EntriesThatChangedPlacesAreNoticed) {
  Tally tally("entries that changed places");

  tally.check("another entry's directory", after([&] {
                fs::remove_all(entry());
                fs::copy(other_entry(), entry(), fs::copy_options::recursive);
              }));
  tally.check("empty directory", after([&] {
                fs::remove_all(entry());
                fs::create_directory(entry());
              }));
  tally.count("swaps", 2);
  tally.check("at the end", at_the_end());
}

}  // namespace
}  // namespace spjit::test
