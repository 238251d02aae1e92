#include "runtime/bundle/bundle_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/json_text.hpp"
#include "runtime/cache/cache_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

constexpr std::size_t k_checksum_digits = 32;
constexpr std::size_t k_sha256_digits = 64;
constexpr std::size_t k_longest_version = 100;
constexpr std::size_t k_most_files = 1000;  // of a kernel

const json& array_in(JsonMembers& members, const char* name) {
  const json& value = members.at(name);
  if (value.is_array()) return value;
  throw Error(fmt::format("\"{}\" is {}; expected an array", name, quoted_json(value)));
}

std::string hex_in(JsonMembers& members, const char* name, std::size_t digits) {
  std::string text = members.text(name);
  if (is_hex_text(text, digits)) return text;
  throw Error(
      fmt::format("\"{}\" is {}; expected {} hexadecimal digits", name, quoted_json(text), digits));
}

std::string text_in(JsonMembers& members, const char* name, std::size_t longest) {
  std::string text = members.text(name);
  if (text.size() <= longest) return text;
  throw Error(fmt::format("\"{}\" has {} bytes; expected at most {}", name, text.size(), longest));
}

/// Offsets follow from sizes, so that files cannot overlap and nothing can hide between them.
BundleBlob parse_blob(const json& value, std::size_t number, std::int64_t offset) {
  JsonMembers members(value, fmt::format("file {}", number));
  BundleBlob blob;
  blob.offset = members.integer("offset", offset, offset);
  blob.bytes = members.integer("bytes", 0, k_most_blob_bytes);
  blob.checksum = hex_in(members, "checksum", k_checksum_digits);
  blob.sha256 = hex_in(members, "sha256", k_sha256_digits);
  members.finish();
  return blob;
}

std::vector<BundleBlob> parse_blobs(const json& array, std::int64_t index_offset) {
  std::vector<BundleBlob> blobs;
  std::int64_t offset = k_bundle_page;
  for (const json& value : array) {
    blobs.push_back(parse_blob(value, blobs.size(), offset));
    offset = blobs.back().end();
    if (offset > index_offset) {
      throw Error(fmt::format("file {} ends at {}, behind the beginning of the index at {}",
                              blobs.size() - 1, offset, index_offset));
    }
  }
  if (offset == index_offset) return blobs;
  throw Error(fmt::format("its files end at {}; expected at the index, {}", offset, index_offset));
}

BundleFileName parse_file(const json& value, std::size_t blobs) {
  JsonMembers members(value, "a file of a kernel");
  const std::int64_t last = static_cast<std::int64_t>(blobs) - 1;
  BundleFileName file{members.text("name"), to_size(members.integer("file", 0, last))};
  members.finish();
  if (is_cache_file_name(file.name)) return file;
  throw Error(fmt::format("a file is named {}, which is not allowed", quoted_json(file.name)));
}

BundleKernel parse_kernel(const json& value, std::size_t number, std::size_t blobs) {
  JsonMembers members(value, fmt::format("kernel {}", number));
  BundleKernel kernel;
  kernel.layer = text_in(members, "layer", k_longest_layer_name);
  kernel.key = members.text("key");
  if (!kernel.key.empty() && !is_cache_key(kernel.key)) {
    throw Error(fmt::format("\"key\" of kernel {} is {}; expected a key or nothing", number,
                            quoted_json(kernel.key)));
  }
  kernel.spjit = text_in(members, "spjit", k_longest_version);
  std::set<std::string_view> names;
  const json& files = array_in(members, "files");
  if (files.size() > k_most_files) {
    throw Error(fmt::format("kernel {} has {} files; expected at most {}", number, files.size(),
                            k_most_files));
  }
  kernel.files.reserve(files.size());  // names refer to them
  for (const json& file : files) {
    kernel.files.push_back(parse_file(file, blobs));
    if (!names.insert(kernel.files.back().name).second) {
      throw Error(
          fmt::format("kernel {} has the file '{}' twice", number, kernel.files.back().name));
    }
  }
  kernel.record = members.at("record");
  members.finish();
  return kernel;
}

void require_once(const std::vector<BundleKernel>& kernels) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const BundleKernel& kernel : kernels) {
    if (kernel.key.empty() || seen.emplace(kernel.layer, kernel.key).second) continue;
    throw Error(
        fmt::format("the layer {} has key {} twice", quoted_json(kernel.layer), kernel.key));
  }
}

void require_used(const BundleIndex& index) {
  std::vector<bool> used(index.blobs.size());
  for (const BundleKernel& kernel : index.kernels) {
    for (const BundleFileName& file : kernel.files) used[file.blob] = true;
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end()) return;
  throw Error(fmt::format("file {} is in no kernel", unused - used.begin()));
}

std::string utf8_text(const json& value) {
  try {
    return value.dump();
  } catch (const json::exception&) {
    throw InvalidArgument("the name of a layer or a record is no UTF-8");
  }
}

json to_json(const BundleKernel& kernel) {
  json files = json::array();
  for (const BundleFileName& file : kernel.files) {
    files.push_back({{"name", file.name}, {"file", file.blob}});
  }
  return {{"layer", kernel.layer},
          {"key", kernel.key},
          {"spjit", kernel.spjit},
          {"files", std::move(files)},
          {"record", kernel.record}};
}

}  // namespace

std::int64_t BundleBlob::end() const noexcept { return offset + round_up(bytes, k_bundle_page); }

std::int64_t BundleIndex::payload_end() const noexcept {
  return blobs.empty() ? k_bundle_page : blobs.back().end();
}

void check_bundle_text(const BundleKernel& kernel) {
  static_cast<void>(utf8_text(to_json(kernel)));
}

std::string write_bundle_index(const BundleIndex& index) {
  json blobs = json::array();
  for (const BundleBlob& blob : index.blobs) {
    blobs.push_back({{"offset", blob.offset},
                     {"bytes", blob.bytes},
                     {"checksum", blob.checksum},
                     {"sha256", blob.sha256}});
  }
  json kernels = json::array();
  for (const BundleKernel& kernel : index.kernels) kernels.push_back(to_json(kernel));
  const json whole = {
      {"format", k_bundle_format}, {"files", std::move(blobs)}, {"kernels", std::move(kernels)}};
  return utf8_text(whole);
}

BundleIndex parse_bundle_index(std::string_view text, std::int64_t index_offset) {
  const json whole = parse_json(text);
  JsonMembers members(whole, "the index");
  static_cast<void>(members.integer("format", k_bundle_format, k_bundle_format));
  BundleIndex index;
  index.blobs = parse_blobs(array_in(members, "files"), index_offset);
  for (const json& kernel : array_in(members, "kernels")) {
    index.kernels.push_back(parse_kernel(kernel, index.kernels.size(), index.blobs.size()));
  }
  members.finish();
  require_once(index.kernels);
  require_used(index);
  return index;
}

}  // namespace spjit
