// Bundles. The input is a bundle, or, behind digests and fixed parts that by chance never fit, the
// index of one:
//
//     input = pages, index        ; pages of files, filled with their number: a byte, modulo 8

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "artifact/bundle_entry.hpp"
#include "base/file_descriptor.hpp"
#include "base/hash.hpp"
#include "runtime/bundle/bundle_file.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

constexpr unsigned k_most_pages = 8;

/// A file without a name on a disk.
FileDescriptor file_of(Bytes content) {
  FileDescriptor file(::memfd_create("bundle", MFD_CLOEXEC));
  expect(static_cast<bool>(file), "no memory file");
  expect(::write(file.get(), content.data(), content.size()) == std::ssize(content),
         "a memory file was not written");
  return file;
}

void check_kernel(const BundleFile& bundle, const BundleKernel& kernel) {
  const KernelFiles files = bundle.read(kernel);
  expect(files.size() == kernel.files.size(), "other files than the index lists");
  for (const BundleFileName& listed : kernel.files) {
    const BundleBlob& blob = bundle.index().blobs[listed.blob];
    const Bytes bytes = files.at(listed.name).bytes();
    expect(is_cache_file_name(listed.name), "a file of a name that is not allowed");
    expect(std::ssize(bytes) == blob.bytes && checksum_hex(bytes) == blob.checksum,
           "a file that does not match its checksum");
    expect(blob.offset >= k_bundle_page && blob.end() <= bundle.index().payload_end() &&
               bundle.index().payload_end() <= bundle.bytes(),
           "a file that lies elsewhere");
  }
  static_cast<void>(bundle_entry_of(kernel, bundle.index()));
}

// No more memory than a multiple of the bundle; kernels are read one at a time.
void check_bundle(Bytes content) {
  constexpr std::size_t k_per_byte = 128;
  constexpr std::size_t k_fixed = std::size_t{256} << 10;
  const FileDescriptor file = file_of(content);
  const std::string name = fmt::format("/proc/self/fd/{}", file.get());
  const std::size_t most = k_per_byte * content.size() + k_fixed;
  const auto bundle = read_within(most, {.name = name},
                                  [&] { return BundleFile::open(name, {.any_owner = true}); });
  if (!bundle) return;
  for (const BundleKernel& kernel : bundle->index().kernels) {
    read_within(most, {}, [&] {
      check_kernel(*bundle, kernel);
      return true;
    });
  }
}

void append(std::vector<std::byte>& all, Bytes bytes) {
  all.insert(all.end(), bytes.begin(), bytes.end());
}

void check_index(Bytes input) {
  const unsigned pages = std::to_integer<unsigned>(input.front()) % k_most_pages;
  const Bytes index = input.subspan(1);
  std::vector<std::byte> all = bundle_header();
  for (unsigned page = 1; page <= pages; ++page) {
    all.resize(all.size() + k_bundle_page, static_cast<std::byte>(page));
  }
  const BundleFooter footer{.index_offset = std::ssize(all),
                            .index_bytes = std::ssize(index),
                            .index_digest = sha256(index)};
  append(all, index);
  append(all, write_bundle_footer(footer));
  check_bundle(all);
}

void run(Bytes input) {
  check_bundle(input);
  if (!input.empty()) check_index(input);
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}
