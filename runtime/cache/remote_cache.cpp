#include "runtime/cache/remote_cache.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "runtime/bundle/bundle_file.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "runtime/cache/cache_directory.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_object_name = "object";

/// Why an object is not taken.
struct NotTaken {
  RemoteMiss miss;
  std::string problem;
};

/// The bundle, if one of the keys signed it; of none, any. Throws NotTaken.
BundleFile open_trusted(const fs::path& file, const RemoteSettings& settings, bool& is_signed) {
  for (const Ed25519PublicKey& key : settings.public_keys) {
    try {
      BundleFile bundle = BundleFile::open(file, {.key = key});
      is_signed = true;
      return bundle;
    } catch (const IoError&) {
      continue;  // by another key, or damaged: told apart below
    }
  }
  is_signed = false;
  std::optional<BundleFile> bundle;
  try {
    bundle = BundleFile::open(file);
  } catch (const IoError& error) {
    throw NotTaken{RemoteMiss::damaged, error.what()};
  }
  if (settings.trust == RemoteTrust::server) return *std::move(bundle);
  throw NotTaken{RemoteMiss::signature,
                 bundle->signature() ? "is not signed by a key in public_keys" : "is not signed"};
}

/// Adds a remark to those that the kernel's users see.
void add_to_note(nlohmann::json& record, const std::string& remark) {
  if (!record.is_object()) return;
  const auto note = record.find("note");
  const bool has_note =
      note != record.end() && note->is_string() && !note->get_ref<const std::string&>().empty();
  record["note"] = has_note ? note->get<std::string>() + "; " + remark : remark;
}

/// An object on its way into the directory. Nothing is made there for a miss: that takes longer
/// than the answer.
class Download {
 public:
  explicit Download(const CacheStore& local) : local_(local) {}

  void add(std::span<const std::byte> part) {
    if (folder_ == nullptr) begin();
    write_all(out_, part, file_.native());
    bytes_ += std::ssize(part);
  }

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

  /// The file, whole.
  [[nodiscard]] const fs::path& finish() {
    if (folder_ == nullptr) begin();
    out_ = FileDescriptor();
    return file_;
  }

 private:
  void begin() {
    // NOLINTNEXTLINE(modernize-make-unique): such a folder cannot be moved.
    folder_.reset(new TemporaryEntry(local_.make_temporary()));
    file_ = folder_->path() / k_object_name;
    out_ = write_new_file(file_, {});
  }

  const CacheStore& local_;
  std::unique_ptr<const TemporaryEntry> folder_;
  fs::path file_;
  FileDescriptor out_;
  std::int64_t bytes_ = 0;
};

/// The object of an entry.
FileBytes make_object(const CacheStore& store, std::string_view key,
                      const std::optional<Ed25519PrivateKey>& private_key) {
  CacheEntry entry = store.read(key);
  std::vector<CacheFile> files;
  files.reserve(entry.record.files.size());
  for (const CacheFileRecord& file : entry.record.files) {
    files.push_back({.name = file.name, .bytes = entry.file(file.name)});
  }
  const TemporaryEntry folder = store.make_temporary();
  const fs::path path = folder.path() / k_object_name;
  BundleFileWriter writer(path, private_key);
  writer.add({.layer = "",
              .key = std::string(key),
              .spjit = entry.record.spjit_version,
              .record = std::move(entry.record.kernel)},
             files);
  const std::int64_t bytes = writer.finish();
  const FileDescriptor directory = open_directory(folder.path());
  return read_file(open_file(directory, k_object_name), k_object_name, bytes);
}

}  // namespace

/// A kernel that may be published.
struct RemoteCache::Checked {
  BundleFile bundle;
  bool is_signed = false;

  [[nodiscard]] const BundleKernel& kernel() const { return bundle.index().kernels.front(); }
};

RemoteCache::RemoteCache(CacheStore local, RemoteSettings settings)
    : local_(std::move(local)),
      settings_(std::move(settings)),
      reports_(std::make_shared<CacheReports>()) {
  try {
    server_ = std::make_shared<const RemoteServer>(settings_);
  } catch (const NotSupported& error) {
    no_libcurl_ = error.what();
    return;
  }
  if (settings_.may_write) queue_ = std::make_unique<RemoteQueue>(server_, local_);
}

CacheLookup RemoteCache::lookup(std::string_view key,
                                std::span<const std::string_view> wanted) const {
  return lookup(key, wanted, {});
}

CacheLookup RemoteCache::lookup(std::string_view key, std::span<const std::string_view> wanted,
                                const Cancellation& cancel) const {
  if (server_ == nullptr) {
    if (!reports_->first("libcurl")) return {};
    return {.entry = std::nullopt, .miss_reason = "remote cache not used: " + no_libcurl_};
  }
  const RemoteAnswer answer = fetch(key, cancel);
  if (answer.is_found) return local_.lookup(key, wanted);
  server_->count(
      [&](RemoteCounts& counts) { ++counts.misses[static_cast<std::size_t>(answer.miss)]; });
  return {.entry = std::nullopt, .miss_reason = answer.problem};
}

RemoteAnswer RemoteCache::fetch(std::string_view key, const Cancellation& cancel) const {
  try {
    Download download(local_);
    RemoteAnswer answer = server_->get(
        key, [&](std::span<const std::byte> part) { download.add(part); }, cancel);
    server_->count([&](RemoteCounts& counts) { counts.bytes_in += download.bytes(); });
    if (!answer.is_found) return answer;
    answer = publish(key, download.finish(), cancel);
    if (answer.is_found) server_->count([](RemoteCounts& counts) { ++counts.hits; });
    return answer;
  } catch (const CacheError& error) {
    return {
        .is_found = false,
        .miss = RemoteMiss::local,
        .problem = fmt::format("remote cache: kernel {} cannot be kept: {}", key, error.what())};
  }
}

RemoteCache::Checked RemoteCache::check(std::string_view key, const fs::path& file) const {
  bool is_signed = false;
  Checked checked{.bundle = open_trusted(file, settings_, is_signed), .is_signed = is_signed};
  const std::vector<BundleKernel>& kernels = checked.bundle.index().kernels;
  if (kernels.size() != 1) {
    throw NotTaken{RemoteMiss::damaged,
                   fmt::format("has {} kernels; expected one", kernels.size())};
  }
  if (kernels.front().key != key) {
    throw NotTaken{RemoteMiss::key, fmt::format("is of key {}", kernels.front().key)};
  }
  if (kernels.front().spjit != local_.spjit_version()) {
    throw NotTaken{RemoteMiss::version, fmt::format("was compiled by spjit {}; this is {}",
                                                    kernels.front().spjit, local_.spjit_version())};
  }
  return checked;
}

RemoteAnswer RemoteCache::publish(std::string_view key, const fs::path& file,
                                  const Cancellation& cancel) const {
  NotTaken problem{};
  try {
    const Checked checked = check(key, file);
    const KernelFiles read = checked.bundle.read(checked.kernel());
    std::vector<CacheFile> files;
    for (const auto& [name, bytes] : read) files.push_back({.name = name, .bytes = bytes.bytes()});
    nlohmann::json record = checked.kernel().record;
    if (!checked.is_signed) {
      add_to_note(record, fmt::format("taken unsigned from {} (trust = server)", settings_.url));
    }
    // The server has it: a copy that a power failure tears is found damaged, and taken again.
    local_.publish(key, files, record, cancel, EntrySync::no);
    return {.is_found = true};
  } catch (const NotTaken& reason) {
    problem = reason;
  } catch (const IoError& error) {
    problem = {RemoteMiss::damaged, error.what()};
  } catch (const InvalidArgument& error) {
    problem = {RemoteMiss::damaged, error.what()};
  } catch (const NotSupported& error) {  // no libcrypto
    problem = {RemoteMiss::signature, error.what()};
  }
  RemoteAnswer answer{.is_found = false, .miss = problem.miss};
  if (reports_->first(key)) {
    answer.problem =
        fmt::format("remote cache: {}: {}; not taken", server_->url_of(key), problem.problem);
  }
  return answer;
}

std::string RemoteCache::reject(const CacheEntry& entry, std::string_view reason) const {
  return local_.reject(entry, reason);
}

void RemoteCache::push_later(std::string_view key, std::int64_t bytes) const {
  if (queue_) queue_->add(key, bytes);
}

bool RemoteCache::flush(const Cancellation& cancel) const {
  return !queue_ || queue_->flush(cancel);
}

std::string RemoteCache::take_reports() const {
  return queue_ ? queue_->take_reports() : std::string();
}

RemotePutResult push_entry(const RemoteServer& server, const CacheStore& store,
                           std::string_view key, const Cancellation& cancel) {
  const FileBytes object = make_object(store, key, server.settings().private_key);
  RemotePutResult result = server.put(key, object.bytes(), cancel);
  server.count([&](RemoteCounts& counts) {
    switch (result.outcome) {
      case RemotePut::written:
        ++counts.written;
        counts.bytes_out += std::ssize(object.bytes());
        break;
      case RemotePut::there_already:
        ++counts.there_already;
        break;
      case RemotePut::failed:
        ++counts.not_written;
        break;
    }
  });
  return result;
}

}  // namespace spjit
