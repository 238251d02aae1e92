#include "runtime/bundle/bundle_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/hash.hpp"
#include "base/refusal.hpp"
#include "base/safe_path.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// As for files of a cache.
constexpr std::int64_t k_largest_mapped_bytes = std::int64_t{1} << 32;

struct WhatToCompare {
  bool checksum = true;
  bool sha256 = false;
};

FileDescriptor open_bundle(const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) {
    throw Error("a path cannot have a zero byte in it");
  }
  // O_NONBLOCK: a FIFO of that name must not block; it means nothing for regular files.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw Error(fmt::format("cannot be opened: {}", std::strerror(errno)));
  return file;
}

void require_safe_owner(const FileDescriptor& file) {
  try {
    require_trusted(file, "the bundle");
  } catch (const CacheError& error) {
    throw Error(fmt::format(
        "{}: what it holds is code that runs; make it yours (chown, chmod go-w), or allow it",
        error.what()));
  }
}

void require_header(const FileDescriptor& file, std::int64_t bytes) {
  constexpr auto k_least = k_bundle_page + std::int64_t{k_bundle_footer_bytes};
  const std::size_t size = to_size(std::min(bytes, k_bundle_page));
  const FileBytes page = read_part(file, "the bundle", 0, size);
  const std::vector<std::byte> expected = bundle_header();
  constexpr std::ptrdiff_t k_magic_bytes = 8;
  if (std::ssize(page.bytes()) < k_magic_bytes ||
      !std::equal(expected.begin(), expected.begin() + k_magic_bytes, page.bytes().begin())) {
    throw Error("is no bundle of kernels (.spjit)");
  }
  if (bytes < k_least) throw Error(fmt::format("has {} bytes: it was cut short", bytes));
  if (!std::ranges::equal(page.bytes(), expected)) {
    throw Error("has a damaged header, or one of a later format");
  }
}

BundleFooter read_footer(const FileDescriptor& file, std::int64_t bytes) {
  const FileBytes end = read_part(file, "the bundle", bytes - std::int64_t{k_bundle_footer_bytes},
                                  k_bundle_footer_bytes);
  return parse_bundle_footer(end.bytes().first<k_bundle_footer_bytes>(), bytes);
}

BundleIndex read_index(const FileDescriptor& file, const BundleFooter& footer) {
  const FileBytes text =
      read_part(file, "the bundle", footer.index_offset, to_size(footer.index_bytes));
  if (sha256(text.bytes()) != footer.index_digest) throw Error("has a damaged index");
  return parse_bundle_index({reinterpret_cast<const char*>(text.data.get()), text.size},
                            footer.index_offset);
}

void require_signature(const BundleFooter& footer, const Ed25519PublicKey& key) {
  if (!footer.signature) throw Error("is not signed, and a public key was given");
  if (footer.signature->key != key) {
    throw Error(fmt::format("is signed by another key, {}; expected {}",
                            hex_text(footer.signature->key), hex_text(key)));
  }
  if (verify_ed25519(key, signed_message(footer), footer.signature->signature)) return;
  throw Error("has a signature that is not of the given key over this content");
}

/// The pages of a file, its padding included. Without content none.
FileBytes pages_of(const FileDescriptor& file, const BundleBlob& blob, bool map) {
  const std::size_t size = to_size(blob.end() - blob.offset);
  if (map && blob.bytes <= k_largest_mapped_bytes) {
    if (auto mapped = map_file(file, size, blob.offset)) return std::move(*mapped);
  }
  return read_part(file, "the bundle", blob.offset, size);
}

/// Whether the pages of a file are whole.
Refusal damage_of(std::span<const std::byte> pages, const BundleBlob& blob, WhatToCompare what) {
  const auto content = pages.first(to_size(blob.bytes));
  if (what.checksum && checksum_hex(content) != blob.checksum) {
    return Refusal("does not match its checksum");
  }
  if (what.sha256 && hex_text(sha256(content)) != blob.sha256) {
    return Refusal("does not match its SHA-256");
  }
  const auto padding = pages.subspan(content.size());
  const bool is_zero = std::ranges::all_of(padding, [](std::byte b) { return b == std::byte{0}; });
  return is_zero ? Refusal::none() : Refusal("is followed by other bytes than zeros");
}

}  // namespace

struct BundleFile::State {
  std::filesystem::path path;
  BundleTrust trust;
  FileDescriptor file;
  std::int64_t bytes = 0;
  BundleFooter footer;
  BundleIndex index;

  void open() {
    file = open_bundle(path);
    bytes = file_size(file, "the bundle");
    if (!trust.any_owner) require_safe_owner(file);
    require_header(file, bytes);
    footer = read_footer(file, bytes);
    if (trust.key) require_signature(footer, *trust.key);
    index = read_index(file, footer);
  }

  /// Of a mapped file the very pages are compared that are used later.
  [[nodiscard]] FileBytes read(std::size_t number, bool map, WhatToCompare what) const {
    const BundleBlob& blob = index.blobs[number];
    FileBytes pages = pages_of(file, blob, map);
    if (const Refusal damage = damage_of(pages.bytes(), blob, what)) {
      throw Error(fmt::format("is damaged: file {}, of {} bytes at {}, {}", number, blob.bytes,
                              blob.offset, damage.reason()));
    }
    pages.size = to_size(blob.bytes);
    return pages;
  }

  /// Throws what `work` does as an IoError that begins with the path.
  template <class Work>
  auto naming_path(const Work& work) const {
    try {
      return work();
    } catch (const NotSupported&) {
      throw;  // no fault of the file
    } catch (const Error& error) {
      throw IoError(fmt::format("{}: {}", path.string(), error.what()));
    }
  }
};

BundleFile BundleFile::open(const std::filesystem::path& path, const BundleTrust& trust) {
  auto state = std::make_shared<State>();
  state->path = path;
  state->trust = trust;
  state->naming_path([&] { state->open(); });
  return BundleFile(std::move(state));
}

const std::filesystem::path& BundleFile::path() const noexcept { return state_->path; }
const BundleIndex& BundleFile::index() const noexcept { return state_->index; }
const std::optional<BundleSignature>& BundleFile::signature() const noexcept {
  return state_->footer.signature;
}
std::int64_t BundleFile::bytes() const noexcept { return state_->bytes; }

KernelFiles BundleFile::read(const BundleKernel& kernel) const {
  const State& state = *state_;
  const bool is_signed = state.trust.key.has_value();
  return state.naming_path([&] {
    // What was cut short since would end the process when a page that is gone is read.
    if (file_size(state.file, "the bundle") != state.bytes) throw Error("has changed its size");
    KernelFiles files;
    for (const BundleFileName& file : kernel.files) {
      files.emplace(file.name, state.read(file.blob, !state.trust.any_owner,
                                          {.checksum = !is_signed, .sha256 = is_signed}));
    }
    return files;
  });
}

void BundleFile::verify() const {
  state_->naming_path([&] {
    for (std::size_t i = 0; i < state_->index.blobs.size(); ++i) {
      static_cast<void>(state_->read(i, false, {.checksum = true, .sha256 = true}));
    }
  });
}

}  // namespace spjit
