#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "artifact/bundle_impl.hpp"
#include "base/file_bytes.hpp"
#include "base/json_text.hpp"
#include "kernels/kernel_record.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "spjit/bundle.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit {
namespace {

constexpr std::string_view k_pem_begin = "-----BEGIN ";

template <class Parse>
auto parse_key(const std::string& text_or_path, const Parse& parse)
    -> std::optional<decltype(parse(std::string_view()))> {
  if (text_or_path.empty()) return std::nullopt;
  if (text_or_path.starts_with(k_pem_begin)) return parse(text_or_path);
  const std::vector<std::byte> bytes = read_file(text_or_path);
  try {
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", text_or_path, error.what()));
  }
}

std::string version_in(const nlohmann::json& record) {
  const auto found = record.find("spjit");
  return found != record.end() && found->is_string() ? found->get<std::string>() : SPJIT_VERSION;
}

}  // namespace

std::optional<Ed25519PublicKey> read_public_key(const std::string& text_or_path) {
  return parse_key(text_or_path,
                   [](std::string_view pem) { return parse_ed25519_public_key(pem); });
}

std::optional<Ed25519PrivateKey> read_private_key(const std::string& text_or_path) {
  return parse_key(text_or_path,
                   [](std::string_view pem) { return Ed25519PrivateKey::parse(pem); });
}

class BundleWriter::Impl {
 public:
  Impl(const std::filesystem::path& path, const std::string& private_key)
      : file(path, read_private_key(private_key)) {}

  BundleFileWriter file;
};

BundleWriter::BundleWriter(const std::filesystem::path& path, const std::string& private_key)
    : impl_(std::make_unique<Impl>(path, private_key)) {}
BundleWriter::BundleWriter(BundleWriter&& other) noexcept = default;
BundleWriter& BundleWriter::operator=(BundleWriter&& other) noexcept = default;
BundleWriter::~BundleWriter() = default;

void BundleWriter::add(const std::string& layer, const Kernel& kernel) {
  nlohmann::json record = parse_json(kernel.record());
  if (!record.is_object() || !record.contains("problem")) {
    throw InvalidArgument(
        "a kernel without a record of its problem, as one that was linked, cannot be bundled");
  }
  record.erase("files");  // of the index, too
  std::vector<CacheFile> files;
  for (const Artifact::File& file : kernel.artifact().files) {
    files.push_back({file.name, file.bytes});
  }
  std::string version = version_in(record);
  impl_->file.add({.layer = layer,
                   .key = kernel.info().key,
                   .spjit = std::move(version),
                   .record = std::move(record)},
                  files);
}

void BundleWriter::add(const Bundle& bundle) {
  const BundleFile& file = bundle.impl_->file;
  for (const BundleKernel& kernel : file.index().kernels) {
    if (impl_->file.has(kernel)) continue;
    const KernelFiles read = file.read(kernel);
    std::vector<CacheFile> files;
    for (const auto& [name, bytes] : read) files.push_back({name, bytes.bytes()});
    impl_->file.add(kernel, files);
  }
}

std::size_t BundleWriter::kernels() const noexcept { return impl_->file.kernels(); }

std::int64_t BundleWriter::finish() { return impl_->file.finish(); }

}  // namespace spjit
