#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "artifact/bundle_impl.hpp"
#include "base/file_bytes.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
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

/// What of "problem" two kernels of one layer share, and what differs where they do not. The others
/// (n, layouts, the image's size) are how it is computed, or an error of a call that has another.
constexpr std::pair<const char*, const char*> k_of_a_layer[] = {{"a", "weights"},
                                                                {"operation", "an operation"},
                                                                {"epilogue", "an epilogue"},
                                                                {"convolution", "a convolution"},
                                                                {"runtime_values", "values"},
                                                                {"numerics", "numerics"},
                                                                {"group_scales", "scales"}};

nlohmann::json computed_in(const nlohmann::json& record) {
  nlohmann::json computed = nlohmann::json::object();
  const auto problem = record.find("problem");
  if (problem == record.end() || !problem->is_object()) return computed;
  for (const auto& [member, what] : k_of_a_layer) {
    computed[member] = problem->value(member, nlohmann::json());
  }
  nlohmann::json& convolution = computed["convolution"];
  if (convolution.is_object()) {
    convolution.erase("height");
    convolution.erase("width");
  }
  return computed;
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

  /// Throws InvalidArgument if the layer has a kernel that computes something else: whoever asks
  /// for the layer would get either.
  void add(BundleKernel kernel, std::span<const CacheFile> files) {
    nlohmann::json computed = computed_in(kernel.record);
    const std::string layer = kernel.layer;
    if (const auto there = computed_.find(layer); there != computed_.end()) {
      require_same(layer, there->second, computed);
    }
    file.add(std::move(kernel), files);
    if (!layer.empty()) computed_.try_emplace(layer, std::move(computed));  // "": it has no name
  }

  BundleFileWriter file;

 private:
  static void require_same(const std::string& layer, const nlohmann::json& there,
                           const nlohmann::json& given) {
    for (const auto& [member, what] : k_of_a_layer) {
      if (there[member] == given[member]) continue;
      throw InvalidArgument(
          fmt::format("the layer '{}' is in the bundle with {} that this kernel does not have; "
                      "expected kernels of one layer to compute the same: give it another name, "
                      "or a bundle of its own",
                      one_line(layer), what));
    }
  }

  std::map<std::string, nlohmann::json> computed_;  ///< by layer
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
  record.erase("files");       // of the index, too
  record.erase("compile_ms");  // another time another: the same kernels give the same bytes
  std::vector<CacheFile> files;
  for (const Artifact::File& file : kernel.artifact().files) {
    files.push_back({file.name, file.bytes});
  }
  std::string version = version_in(record);
  impl_->add({.layer = layer,
              .key = kernel.info().key,
              .spjit = std::move(version),
              .record = std::move(record)},
             files);
}

void BundleWriter::add(const Bundle& bundle) {
  for (std::size_t entry = 0; entry < bundle.entries().size(); ++entry) add(bundle, entry);
}

void BundleWriter::add(const Bundle& bundle, std::size_t entry) {
  const BundleKernel& kernel = bundle.impl_->kernel(entry);
  if (impl_->file.has(kernel)) return;
  const KernelFiles read = bundle.impl_->file.read(kernel);
  std::vector<CacheFile> files;
  for (const auto& [name, bytes] : read) files.push_back({name, bytes.bytes()});
  try {
    impl_->add(kernel, files);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", bundle.path().string(), error.what()));
  }
}

std::size_t BundleWriter::kernels() const noexcept { return impl_->file.kernels(); }

std::int64_t BundleWriter::finish() { return impl_->file.finish(); }

}  // namespace spjit
