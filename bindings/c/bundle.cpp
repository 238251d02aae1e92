// Bundles of the C interface.

#include "spjit/bundle.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/convert.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handles.hpp"
#include "spjit/error.hpp"

struct spjit_bundle {
  explicit spjit_bundle(spjit::Bundle opened) : bundle(std::move(opened)) {}

  spjit::Bundle bundle;
  mutable std::once_flag described;
  mutable std::vector<std::string> info;  ///< JSON of each entry, made when it is first asked for
};

struct spjit_bundle_writer {
  spjit::BundleWriter writer;
};

namespace spjit::c {
namespace {

std::string entry_json(const BundleEntry& entry) {
  // Parsed before, when the bundle was opened.
  const nlohmann::json problem = nlohmann::json::parse(entry.problem);
  return nlohmann::json{{"layer", entry.layer},
                        {"target", entry.target.name()},
                        {"card", entry.card},
                        {"weights", entry.weights},
                        {"family", entry.family},
                        {"key", entry.key},
                        {"rows", entry.rows},
                        {"cols", entry.cols},
                        {"nnz", entry.nnz},
                        {"n", entry.n.value},
                        {"runtime_n", entry.n.runtime},
                        {"bytes", entry.bytes},
                        {"problem", problem}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::size_t checked_entry(const Bundle& bundle, std::int64_t entry) {
  const std::int64_t count = std::ssize(bundle.entries());
  if (entry >= 0 && entry < count) return static_cast<std::size_t>(entry);
  throw InvalidArgument(
      fmt::format("entry is {}; expected 0 to {}, the last of the bundle", entry, count - 1));
}

std::optional<Target> target_of(const char* name) {
  if (name == nullptr) return std::nullopt;
  return Target::parse(name);
}

std::int64_t entry_of(const std::optional<std::size_t>& found) {
  return found ? static_cast<std::int64_t>(*found) : -1;
}

/// A key that is given; null is none. An empty one is refused: it would be none, too.
std::string key_of(const char* key, const char* name) {
  if (key == nullptr) return {};
  if (*key == '\0') {
    throw spjit::InvalidArgument(fmt::format(
        "{} is empty; expected a key's PEM text, the path of a file that has it, or NULL "
        "for none",
        name));
  }
  return key;
}

/// Sets `*entry` to -1.
std::int64_t& entry_in(std::int64_t* entry) {
  require(entry, "entry");
  *entry = -1;
  return *entry;
}

}  // namespace
}  // namespace spjit::c

using namespace spjit::c;

int spjit_bundle_open(const char* path, const spjit_bundle_options* options,
                      spjit_bundle** bundle) {
  return guarded([&] {
    spjit_bundle*& result = result_of(bundle, "bundle");
    require_path(path, "path");
    const auto given = optional_struct(options, "spjit_bundle_options");
    spjit::BundleOptions opened;
    opened.public_key = key_of(given.public_key, "public_key");
    opened.any_owner = checked_flag(given.any_owner, "any_owner");
    result = new spjit_bundle(spjit::Bundle::open(path, opened));
  });
}

void spjit_bundle_destroy(spjit_bundle* bundle) { delete bundle; }

int64_t spjit_bundle_count(const spjit_bundle* bundle) {
  return bundle == nullptr ? -1 : std::ssize(bundle->bundle.entries());
}

int spjit_bundle_entry_info(const spjit_bundle* bundle, int64_t entry, const char** json) {
  return guarded([&] {
    const char*& result = result_of(json, "json");
    require(bundle, "bundle");
    const std::size_t number = checked_entry(bundle->bundle, entry);
    std::call_once(bundle->described, [&] {
      for (const spjit::BundleEntry& described : bundle->bundle.entries()) {
        bundle->info.push_back(entry_json(described));
      }
    });
    result = bundle->info[number].c_str();
  });
}

int spjit_bundle_find_layer(const spjit_bundle* bundle, const char* layer, const char* target,
                            int64_t* entry) {
  return guarded([&] {
    std::int64_t& result = entry_in(entry);
    require(bundle, "bundle");
    require(layer, "layer");
    result = entry_of(bundle->bundle.find(layer, target_of(target)));
  });
}

int spjit_bundle_find(const spjit_bundle* bundle, const spjit_matrix* matrix,
                      const spjit_problem* problem, const char* target, int64_t* entry) {
  return guarded([&] {
    std::int64_t& result = entry_in(entry);
    require(bundle, "bundle");
    require(matrix, "matrix");
    const spjit_problem given =
        checked_struct(problem, "spjit_problem", offsetof(spjit_problem, convolution));
    result = entry_of(bundle->bundle.find(problem_of(given, matrix->matrix), target_of(target)));
  });
}

int spjit_bundle_load(const spjit_bundle* bundle, int64_t entry, const spjit_load_options* options,
                      spjit_kernel** kernel) {
  return guarded([&] {
    spjit_kernel*& result = result_of(kernel, "kernel");
    require(bundle, "bundle");
    const std::size_t number = checked_entry(bundle->bundle, entry);
    const auto given = optional_struct(options, "spjit_load_options");
    if (checked_flag(given.any_owner, "any_owner")) {
      throw spjit::InvalidArgument(
          "any_owner is 1; expected 0: it is an option of spjit_bundle_open()");
    }
    result = new spjit_kernel(bundle->bundle.load(
        number, {.threads = checked_threads(given.threads),
                 .parallel_for = parallel_for_of(given.parallel_for, given.parallel_for_user)}));
  });
}

int spjit_bundle_verify(const spjit_bundle* bundle) {
  return guarded([&] {
    require(bundle, "bundle");
    bundle->bundle.verify();
  });
}

int spjit_bundle_writer_create(const char* path, const char* private_key,
                               spjit_bundle_writer** writer) {
  return guarded([&] {
    spjit_bundle_writer*& result = result_of(writer, "writer");
    require_path(path, "path");
    result = new spjit_bundle_writer{spjit::BundleWriter(path, key_of(private_key, "private_key"))};
  });
}

int spjit_bundle_writer_add(spjit_bundle_writer* writer, const char* layer,
                            const spjit_kernel* kernel) {
  return guarded([&] {
    require(writer, "writer");
    require(layer, "layer");
    require(kernel, "kernel");
    writer->writer.add(layer, kernel->kernel);
  });
}

int spjit_bundle_writer_add_bundle(spjit_bundle_writer* writer, const spjit_bundle* bundle) {
  return guarded([&] {
    require(writer, "writer");
    require(bundle, "bundle");
    writer->writer.add(bundle->bundle);
  });
}

int spjit_bundle_writer_finish(spjit_bundle_writer* writer) {
  return guarded([&] {
    require(writer, "writer");
    static_cast<void>(writer->writer.finish());
  });
}

void spjit_bundle_writer_destroy(spjit_bundle_writer* writer) { delete writer; }
