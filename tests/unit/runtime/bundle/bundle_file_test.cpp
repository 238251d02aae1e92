#include "runtime/bundle/bundle_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/hash.hpp"
#include "bundle_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(BundleFileTest, KernelsComeBackAsTheyWere) {
  write();

  const BundleFile bundle = open();
  const BundleIndex& index = bundle.index();

  ASSERT_EQ(index.kernels.size(), 2U);
  EXPECT_EQ(index.kernels[0].layer, "fc1");
  EXPECT_EQ(index.kernels[1].key, k_second);
  EXPECT_EQ(index.kernels[1].spjit, "0.1.0");
  EXPECT_EQ(index.kernels[0].record, nlohmann::json({{"tile", {28, 16}}}));
  EXPECT_FALSE(bundle.signature());
  EXPECT_EQ(bundle.bytes(), static_cast<std::int64_t>(fs::file_size(path())));
  const KernelFiles first = bundle.read(index.kernels[0]);
  EXPECT_TRUE(std::ranges::equal(first.at("kernel.o").bytes(), code_));
  EXPECT_EQ(first.at("empty").bytes().size(), 0U);
  const KernelFiles second = bundle.read(index.kernels[1]);
  EXPECT_TRUE(std::ranges::equal(second.at("kernel.o").bytes(), weights_));
  EXPECT_TRUE(std::ranges::equal(second.at("shared").bytes(), code_));
}

TEST_F(BundleFileTest, FilesAreMappedFromPagesOfTheirOwnAndEqualOnesAreThereOnce) {
  write();

  const BundleFile bundle = open();
  const KernelFiles files = bundle.read(bundle.index().kernels[0]);

  EXPECT_TRUE(files.at("kernel.o").is_mapped());
  ASSERT_EQ(bundle.index().blobs.size(), 3U);
  EXPECT_EQ(bundle.index().blobs[0].offset, 4096);
  EXPECT_EQ(bundle.index().blobs[1].offset, 3 * 4096);
  EXPECT_EQ(bundle.index().blobs[1].bytes, 0);
  EXPECT_EQ(bundle.index().blobs[2].offset, 3 * 4096);
  EXPECT_EQ(bundle.index().payload_end(), 4 * 4096);
}

TEST_F(BundleFileTest, TheSameKernelsGiveTheSameBytes) {
  write(k_private_key);
  const std::vector<std::byte> first = bytes();

  write(k_private_key);

  EXPECT_EQ(bytes(), first);
}

TEST_F(BundleFileTest, HasTheFormatThatOlderProgramsRead) {
  // A change here is a change of the format: raise k_bundle_format.
  BundleFileWriter(path()).finish();

  const std::vector<std::byte> all = bytes();

  const std::string index = R"({"files":[],"format":1,"kernels":[]})";
  ASSERT_EQ(all.size(), 4096U + index.size() + 192U);
  EXPECT_EQ(hex_text(std::span(all).first(24)), "8953504a49540d0a1a0a0000000000000100000000000000");
  EXPECT_TRUE(std::ranges::all_of(std::span(all).subspan(24, 4072),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(std::ranges::equal(std::span(all).subspan(4096, index.size()), to_bytes(index)));
  const auto footer = std::span(all).last(192);
  EXPECT_EQ(hex_text(footer.first(16)), "00100000000000002400000000000000");
  EXPECT_EQ(hex_text(footer.subspan(16, 32)), hex_text(sha256(to_bytes(index))));
  EXPECT_EQ(hex_text(footer.subspan(48, 104)), std::string(208, '0'));
  EXPECT_EQ(hex_text(footer.subspan(152, 8)), "0100000000000000");
  EXPECT_TRUE(std::ranges::equal(footer.subspan(160, 20), to_bytes("SPJIT end of bundle\n")));
}

TEST_F(BundleFileTest, AnyChangedByteIsRefusedWithALineThatNamesTheFile) {
  for (const std::string_view key : {std::string_view(), k_public_key}) {
    write(key.empty() ? std::string_view() : k_private_key);
    const std::vector<std::byte> good = bytes();
    ASSERT_EQ(error(key), "");
    std::vector<std::size_t> places = {0, 15, 16, 24, 4095, 4096, 4096 + 4999};
    // Padding, the second file, index and footer.
    places.insert(places.end(), {4096 + 5000, 3 * 4096 - 1, 3 * 4096, 4 * 4096 - 1});
    for (std::size_t at = std::size_t{4} * 4096; at < good.size(); at += 7) places.push_back(at);
    for (std::size_t at = good.size() - 192; at < good.size(); ++at) places.push_back(at);
    for (const std::size_t at : places) {
      // Without a key, nobody looks at a signature.
      std::vector<std::byte> bad = good;
      bad[at] ^= std::byte{0x10};
      replace(bad);

      const std::string said = error(key);

      EXPECT_THAT(said, StartsWith(path().string() + ": ")) << at;
      EXPECT_EQ(said.find('\n'), std::string::npos) << at;
      // Also where only all of it is verified.
      if (said.find("is damaged: file") != std::string::npos) {
        EXPECT_THROW(open(key).verify(), IoError) << at;
      }
    }
  }
}

TEST_F(BundleFileTest, CutShortOrWithSomethingAfterItItIsRefused) {
  write();
  const std::vector<std::byte> good = bytes();

  for (std::size_t length = 0; length < good.size(); length += 101) {
    replace(std::span(good).first(length));
    EXPECT_THAT(error(), StartsWith(path().string() + ": ")) << length;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  replace(longer);
  EXPECT_THAT(error(), HasSubstr("cut short, or is another kind of file"));
}

TEST_F(BundleFileTest, OtherFilesAreNoBundles) {
  EXPECT_THAT(error(), HasSubstr("cannot be opened: No such file"));
  replace(to_bytes(std::string(10000, 'x')));
  EXPECT_THAT(error(), HasSubstr("is no bundle of kernels"));
  replace({});
  EXPECT_THAT(error(), HasSubstr("is no bundle of kernels"));
  fs::remove(path());
  fs::create_directory(path());
  EXPECT_THAT(error(), HasSubstr("is no regular file"));
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("is no regular file"));
  EXPECT_THROW(static_cast<void>(BundleFile::open(std::string("a\0b", 3))), IoError);
}

TEST_F(BundleFileTest, ALaterFormatIsNamed) {
  write();
  std::vector<std::byte> later = bytes();
  later[later.size() - 192 + 152] = std::byte{2};
  replace(later);

  EXPECT_THAT(error(), HasSubstr("is a bundle of format 2; this spjit reads format 1"));
}

TEST_F(BundleFileTest, WithAKeyOnlyItsSignatureIsBelieved) {
  write(k_private_key);
  EXPECT_EQ(error(k_public_key), "");
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(open().signature());
  EXPECT_THAT(error(k_other_public_key), HasSubstr("is signed by another key, d75a"));

  write();
  EXPECT_THAT(error(k_public_key), HasSubstr("is not signed, and a public key was given"));
}

TEST_F(BundleFileTest, ASignatureOfAnotherBundleIsNotBelieved) {
  write(k_private_key);
  const std::vector<std::byte> ours = bytes();
  write(k_other_private_key);
  std::vector<std::byte> theirs = bytes();
  const auto signature_of = [](auto& all) { return std::span(all).last(192).subspan(56, 96); };
  ASSERT_EQ(theirs.size(), ours.size());

  // The same kernels: key and signature of ours fit.
  std::ranges::copy(signature_of(ours), signature_of(theirs).begin());
  replace(theirs);
  EXPECT_EQ(error(k_public_key), "");

  code_[0] = std::byte{'x'};
  write();
  std::vector<std::byte> changed = bytes();
  std::ranges::copy(std::span(ours).last(192).subspan(48, 104),
                    std::span(changed).last(192).subspan(48, 104).begin());
  replace(changed);
  EXPECT_THAT(error(k_public_key), HasSubstr("has a signature that is not of the given key"));
  EXPECT_EQ(error(), "") << "without a key";
}

TEST_F(BundleFileTest, WithAKeyChecksumsAloneAreNotEnough) {
  // XXH3 collisions can be made; here the index itself lies about it.
  write();
  std::string text = write_bundle_index(open().index());
  const std::string digest = hex_text(sha256(code_));
  text.replace(text.find(digest), digest.size(), std::string(64, 'a'));
  replace_index(text);

  EXPECT_EQ(error(), "");
  EXPECT_THROW(open().verify(), IoError);

  replace_index(text, k_private_key);
  EXPECT_EQ(error(), "") << "without a key";
  EXPECT_THAT(error(k_public_key), HasSubstr("SHA-256"));
}

TEST_F(BundleFileTest, WhatOthersCanWriteToIsRefusedOrCopied) {
  write();
  fs::permissions(path(), fs::perms::owner_read | fs::perms::group_write);
  EXPECT_THAT(error(), AllOf(HasSubstr("its group can write to it"), HasSubstr("chmod go-w")));

  const BundleFile bundle = BundleFile::open(path(), {.any_owner = true});
  const KernelFiles files = bundle.read(bundle.index().kernels[0]);

  EXPECT_FALSE(files.at("kernel.o").is_mapped());
  EXPECT_TRUE(std::ranges::equal(files.at("kernel.o").bytes(), code_));
}

TEST_F(BundleFileTest, IsReadOnlyWhateverTheUmask) {
  const mode_t before = ::umask(0);
  write();
  ::umask(before);

  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);

  EXPECT_EQ(status.st_mode & 07777U, 0444U);
}

TEST_F(BundleFileTest, RemovedOrReplacedItStaysWhatWasOpened) {
  write();
  const BundleFile bundle = open();
  const KernelFiles before = bundle.read(bundle.index().kernels[0]);

  replace(to_bytes("something else"));

  EXPECT_TRUE(std::ranges::equal(before.at("kernel.o").bytes(), code_));
  EXPECT_TRUE(
      std::ranges::equal(bundle.read(bundle.index().kernels[1]).at("kernel.o").bytes(), weights_));
}

TEST_F(BundleFileTest, CutShortAfterItWasOpenedItIsRefusedBeforeAPageIsRead) {
  write();
  const BundleFile bundle = open();
  fs::permissions(path(), fs::perms::owner_write, fs::perm_options::add);

  fs::resize_file(path(), 4096);

  EXPECT_THAT([&] { static_cast<void>(bundle.read(bundle.index().kernels[0])); },
              testing::ThrowsMessage<IoError>(HasSubstr("has changed its size")));
}

TEST_F(BundleFileTest, AForkedProcessReadsOn) {
  write();
  const BundleFile bundle = open();

  const int status = in_child([&] {
    const KernelFiles files = bundle.read(bundle.index().kernels[0]);
    return std::ranges::equal(files.at("kernel.o").bytes(), code_) ? 0 : 1;
  });

  EXPECT_EQ(status, 0);
}

TEST_F(BundleFileTest, FilesBeyondFourGigabytesAreFound) {
  // Sparse: only the last file and the index take space.
  constexpr std::int64_t k_hole = (std::int64_t{1} << 32) + 4096;
  BundleIndex index;
  index.blobs = {{.offset = 4096,
                  .bytes = k_hole,
                  .checksum = std::string(32, '0'),
                  .sha256 = std::string(64, '0')},
                 {.offset = 4096 + k_hole,
                  .bytes = std::ssize(code_),
                  .checksum = checksum_hex(code_),
                  .sha256 = hex_text(sha256(code_))}};
  index.kernels = {kernel_of("large", k_first), kernel_of("fc1", k_second)};
  index.kernels[0].files = {{"kernel.o", 0}};
  index.kernels[1].files = {{"kernel.o", 1}};
  const std::string text = write_bundle_index(index);
  {
    std::ofstream file(path(), std::ios::binary);
    const auto put = [&](std::int64_t at, std::span<const std::byte> bytes) {
      file.seekp(at);
      file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    };
    put(0, bundle_header());
    put(index.blobs[1].offset, code_);
    put(index.payload_end(), std::as_bytes(std::span(text)));
    put(index.payload_end() + std::ssize(text),
        write_bundle_footer({.index_offset = index.payload_end(),
                             .index_bytes = std::ssize(text),
                             .index_digest = sha256(std::as_bytes(std::span(text)))}));
    if (!file.flush()) GTEST_SKIP() << "no sparse file of 4 GiB can be made here";
  }

  const BundleFile bundle = open();
  const KernelFiles files = bundle.read(bundle.index().kernels[1]);

  EXPECT_TRUE(std::ranges::equal(files.at("kernel.o").bytes(), code_));
}

TEST_F(BundleFileTest, AWriterThatIsNotFinishedLeavesNothing) {
  {
    BundleFileWriter writer(path());
    writer.add(kernel_of("fc1", k_first), std::vector<CacheFile>{{"kernel.o", code_}});
  }

  EXPECT_FALSE(fs::exists(path()));
  EXPECT_TRUE(fs::is_empty(path().parent_path()));
}

TEST_F(BundleFileTest, AWriterRefusesWhatNoBundleHas) {
  BundleFileWriter writer(path());
  const std::vector<CacheFile> files = {{"kernel.o", code_}};
  writer.add(kernel_of("fc1", k_first), files);
  const std::vector<CacheFile> twice = {{"a", code_}, {"a", code_}};
  const std::vector<CacheFile> elsewhere = {{"../a", code_}};

  EXPECT_THROW(writer.add(kernel_of("fc1", k_first), files), InvalidArgument);
  EXPECT_THROW(writer.add(kernel_of("fc2", "no key"), files), InvalidArgument);
  EXPECT_THROW(writer.add(kernel_of(std::string(1001, 'x'), k_first), files), InvalidArgument);
  EXPECT_THROW(writer.add(kernel_of("fc2", k_first), twice), InvalidArgument);
  EXPECT_THROW(writer.add(kernel_of("fc2", k_second), elsewhere), InvalidArgument);
  writer.add(kernel_of("fc3", k_first), files);
  writer.finish();

  EXPECT_EQ(open().index().kernels.size(), 2U);
  EXPECT_THROW(writer.finish(), InvalidArgument);
  EXPECT_THROW(writer.add(kernel_of("fc4", k_first), files), InvalidArgument);
}

TEST_F(BundleFileTest, FiveThousandKernelsWithTheLargestRecordsAreOneBundle) {
  constexpr int k_kernels = 5000;
  constexpr std::size_t k_most_record_bytes = 8192;  // of compiler/record_limit.hpp
  BundleFileWriter writer(path());
  for (int i = 0; i < k_kernels; ++i) {
    BundleKernel kernel = kernel_of("encoder.layer." + std::to_string(i), k_first);
    kernel.record["note"] = "";
    const std::size_t others = kernel.record.dump().size();
    kernel.record["note"] = std::string(k_most_record_bytes - others, 'x');
    const std::vector<std::byte> code = to_bytes("code " + std::to_string(i));
    const std::vector<std::byte> positions = to_bytes("positions " + std::to_string(i));
    // As many files as a kernel of a GPU may have.
    writer.add(kernel, std::vector<CacheFile>{{"kernel.cubin", code},
                                              {"kernel.cu.gz", code},
                                              {"kernel.positions", positions},
                                              {"kernel.ptx.gz", code}});
  }
  writer.finish();

  const BundleFile bundle = open();

  ASSERT_EQ(bundle.index().kernels.size(), std::size_t{k_kernels});
  const BundleKernel& last = bundle.index().kernels.back();
  EXPECT_EQ(last.record.dump().size(), k_most_record_bytes);
  EXPECT_TRUE(std::ranges::equal(bundle.read(last).at("kernel.positions").bytes(),
                                 to_bytes("positions 4999")));
}

TEST_F(BundleFileTest, ANameThatIsNoTextIsRefusedAtOnceAndOthersStay) {
  const std::vector<CacheFile> files = {{"kernel.o", code_}};
  BundleFileWriter writer(path());
  writer.add(kernel_of("fc1", k_first), files);

  EXPECT_THROW(writer.add(kernel_of("fc\xff", k_first), files), InvalidArgument);
  writer.finish();
  EXPECT_EQ(open().index().kernels.size(), 1U);
}

}  // namespace
}  // namespace spjit::test
