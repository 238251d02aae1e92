#include "runtime/bundle/bundle_file_writer.hpp"

#include <fmt/format.h>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "base/printable.hpp"
#include "runtime/bundle/bundle_footer.hpp"
#include "runtime/cache/cache_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// Others may have it mapped: what is written in place changes code that runs.
constexpr mode_t k_read_only = 0444;

}  // namespace

BundleFileWriter::BundleFileWriter(const std::filesystem::path& path,
                                   std::optional<Ed25519PrivateKey> key)
    : file_(path, k_read_only), key_(std::move(key)) {
  file_.write(bundle_header());
}

void BundleFileWriter::require_open() const {
  if (!is_open_) {
    throw InvalidArgument("the bundle is finished, or failed; expected one that is being written");
  }
}

std::size_t BundleFileWriter::blob_of(std::span<const std::byte> bytes) {
  const auto [found, is_new] = blobs_.try_emplace(hex_text(sha256(bytes)), index_.blobs.size());
  if (!is_new) return found->second;
  const BundleBlob blob{.offset = index_.payload_end(),
                        .bytes = std::ssize(bytes),
                        .checksum = checksum_hex(bytes),
                        .sha256 = found->first};
  file_.write(bytes);
  const std::vector<std::byte> padding(to_size(blob.end() - blob.offset - blob.bytes));
  file_.write(padding);
  index_.blobs.push_back(blob);
  return found->second;
}

void BundleFileWriter::add(BundleKernel kernel, std::span<const CacheFile> files) {
  require_open();
  if (kernel.layer.size() > k_longest_layer_name) {
    throw InvalidArgument(fmt::format("the name of a layer has {} bytes; expected at most {}",
                                      kernel.layer.size(), k_longest_layer_name));
  }
  check_bundle_text(kernel);  // not in finish(): all other layers would be lost
  if (!kernel.key.empty() && !is_cache_key(kernel.key)) {
    throw InvalidArgument(fmt::format("'{}' is no key of a kernel", printable(kernel.key)));
  }
  if (!kernel.key.empty() && !names_.emplace(kernel.layer, kernel.key).second) {
    throw InvalidArgument(
        fmt::format("the layer '{}' is in the bundle with this kernel already", kernel.layer));
  }
  std::set<std::string_view> names;
  for (const CacheFile& file : files) {
    if (!is_cache_file_name(file.name) || !names.insert(file.name).second) {
      throw InvalidArgument(
          fmt::format("a kernel cannot have a file '{}', or has it twice", printable(file.name)));
    }
  }
  kernel.files.clear();
  is_open_ = false;  // unless all of it is written
  for (const CacheFile& file : files) kernel.files.push_back({file.name, blob_of(file.bytes)});
  is_open_ = true;
  index_.kernels.push_back(std::move(kernel));
}

std::int64_t BundleFileWriter::finish() {
  require_open();
  is_open_ = false;
  const std::string text = write_bundle_index(index_);
  if (std::ssize(text) > k_most_index_bytes) {
    throw InvalidArgument(
        fmt::format("the index of {} kernels has {} bytes; expected at most {}: make two bundles",
                    index_.kernels.size(), text.size(), k_most_index_bytes));
  }
  const auto bytes = std::as_bytes(std::span(text));
  BundleFooter footer{.index_offset = index_.payload_end(),
                      .index_bytes = std::ssize(text),
                      .index_digest = sha256(bytes)};
  if (key_) {
    footer.signature.emplace().key = key_->public_key();
    footer.signature->signature = key_->sign(signed_message(footer));
  }
  file_.write(bytes);
  file_.write(write_bundle_footer(footer));
  file_.publish();
  return footer.index_offset + footer.index_bytes + std::int64_t{k_bundle_footer_bytes};
}

}  // namespace spjit
