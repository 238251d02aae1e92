#pragma once

/// @file
/// Bundles in a scratch directory, with files that are no kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/bundle/bundle_file.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/signing_keys.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit::test {

inline const std::string k_first(64, '1');
inline const std::string k_second(64, '2');

inline BundleKernel kernel_of(const std::string& layer, const std::string& key) {
  return {.layer = layer, .key = key, .spjit = "0.1.0", .record = {{"tile", {28, 16}}}};
}

class BundleFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return scratch_.path() / "model.spjit"; }

  /// Two layers of two files each, one of which both have; "code" is longer than a page.
  void write(std::string_view private_key = {}) const {
    std::optional<Ed25519PrivateKey> key;
    if (!private_key.empty()) key = Ed25519PrivateKey::parse(private_key);
    BundleFileWriter writer(path(), std::move(key));
    writer.add(kernel_of("fc1", k_first),
               std::vector<CacheFile>{{"kernel.o", code_}, {"empty", {}}});
    writer.add(kernel_of("fc2", k_second),
               std::vector<CacheFile>{{"kernel.o", weights_}, {"shared", code_}});
    writer.finish();
  }

  [[nodiscard]] BundleFile open(std::string_view public_key = {}) const {
    BundleTrust trust;
    if (!public_key.empty()) trust.key = parse_ed25519_public_key(public_key);
    return BundleFile::open(path(), trust);
  }

  /// The error of opening it and reading everything; empty if there is none.
  [[nodiscard]] std::string error(std::string_view public_key = {}) const {
    try {
      const BundleFile bundle = open(public_key);
      for (const BundleKernel& kernel : bundle.index().kernels) {
        static_cast<void>(bundle.read(kernel));
      }
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }

  [[nodiscard]] std::vector<std::byte> bytes() const { return read_bytes(path()); }
  void replace(std::span<const std::byte> bytes) const {
    std::filesystem::remove(path());
    write_bytes(path(), bytes);
  }

  /// The bundle with another text as its index, whose digest fits; signed, if there is a key.
  void replace_index(const std::string& text, std::string_view private_key = {}) const {
    std::vector<std::byte> all = bytes();
    const std::int64_t offset = open().index().payload_end();
    all.resize(static_cast<std::size_t>(offset));
    const auto index = std::as_bytes(std::span(text));
    all.insert(all.end(), index.begin(), index.end());
    BundleFooter footer{
        .index_offset = offset, .index_bytes = std::ssize(text), .index_digest = sha256(index)};
    if (!private_key.empty()) {
      const Ed25519PrivateKey key = Ed25519PrivateKey::parse(private_key);
      footer.signature.emplace().key = key.public_key();
      footer.signature->signature = key.sign(signed_message(footer));
    }
    const BundleFooterBytes written = write_bundle_footer(footer);
    all.insert(all.end(), written.begin(), written.end());
    replace(all);
  }

  std::vector<std::byte> code_ = to_bytes(std::string(5000, 'c'));
  std::vector<std::byte> weights_ = to_bytes(std::string(4096, 'w'));

 private:
  ScratchDirectory scratch_;
};

}  // namespace spjit::test
