#include "kernels/tuning/sample_reader.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/gzip.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostSampleGroup;
using spjit::read_sample_file;
using spjit::testing_support::TemporaryDirectory;

std::string line_of(const std::string& name) {
  HostSampleGroup group;
  group.name = name;
  return write_samples(group) + "\n";
}

TEST(SampleReader, ReadsPlainAndCompressedFilesInTheirOrder) {
  const TemporaryDirectory directory;
  const std::string text = line_of("one") + line_of("two");
  const std::vector<std::byte> packed = spjit::gzip(text);
  std::ofstream(directory.path() / "a.jsonl") << text;
  std::ofstream(directory.path() / "a.jsonl.gz", std::ios::binary)
      .write(reinterpret_cast<const char*>(packed.data()), std::ssize(packed));

  for (const char* name : {"a.jsonl", "a.jsonl.gz"}) {
    const std::vector<HostSampleGroup> groups =
        read_sample_file(directory.path() / name, spjit::read_host_samples);
    ASSERT_EQ(groups.size(), 2U) << name;
    EXPECT_EQ(groups[0].name, "one");
    EXPECT_EQ(groups[1].name, "two");
  }
}

TEST(SampleReader, NamesFileAndLineOfWhatIsNoSample) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "a.jsonl") << line_of("one") << "{}\n";

  try {
    static_cast<void>(read_sample_file(directory.path() / "a.jsonl", spjit::read_host_samples));
    FAIL() << "was read";
  } catch (const spjit::Error& error) {
    EXPECT_NE(std::string(error.what()).find("a.jsonl, line 2: "), std::string::npos);
  }
}

TEST(SampleReader, RefusesWhatIsMissingDamagedOrTooLong) {
  const TemporaryDirectory directory;
  EXPECT_THROW(static_cast<void>(spjit::read_text_file(directory.path() / "none", 9)),
               spjit::IoError);
  std::ofstream(directory.path() / "torn.gz") << "\x1f\x8b torn";
  EXPECT_THROW(static_cast<void>(spjit::read_text_file(directory.path() / "torn.gz", 99)),
               spjit::Error);
  std::ofstream(directory.path() / "long") << std::string(100, 'x');
  EXPECT_THROW(static_cast<void>(spjit::read_text_file(directory.path() / "long", 99)),
               spjit::Error);
  EXPECT_EQ(spjit::read_text_file(directory.path() / "long", 100).size(), 100U);
}

}  // namespace
