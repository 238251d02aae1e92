#include "spjit/bundle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "artifact/bundle_entry.hpp"
#include "artifact/bundle_impl.hpp"
#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "base/json_text.hpp"
#include "base/printable.hpp"
#include "matrix/cancellable.hpp"
#include "plan/group_scales.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// How well an entry serves: the larger the better; negative: not at all.
int fitness(const BundleEntry& entry, const std::optional<Target>& wanted) {
  const Target& code = entry.target;
  if (wanted && code.backend() != wanted->backend()) return -1;
  return backend_of(code).fitness(code, entry.card, wanted ? &*wanted : nullptr);
}

/// The best of the entries that `matches` takes. Throws NotSupported if none of them serves.
template <class Matches>
std::optional<std::size_t> best_of(const Bundle& bundle, const std::optional<Target>& target,
                                   const Matches& matches) {
  std::optional<std::size_t> best;
  std::set<std::string> targets;
  std::string layer;
  int best_fitness = -1;
  for (std::size_t i = 0; i < bundle.entries().size(); ++i) {
    const BundleEntry& entry = bundle.entries()[i];
    if (!matches(entry)) continue;
    targets.insert(entry.target.name());
    layer = entry.layer;
    const int fits = fitness(entry, target);
    if (fits <= best_fitness) continue;
    best = i;
    best_fitness = fits;
  }
  if (best || targets.empty()) return best;
  throw NotSupported(
      fmt::format("{}: the layer '{}' is there for {}; {}", bundle.path().string(), one_line(layer),
                  fmt::join(targets, ", "),
                  target ? fmt::format("asked for was {}", target->name())
                         : fmt::format("this CPU runs {}: compile it for that", Target().name())));
}

}  // namespace

std::string weight_hash(const CsrMatrix& matrix, bool pattern_only) {
  matrix.validate();
  if (has_sorted_rows(matrix, {})) return matrix_hash(matrix, !pattern_only);
  return matrix_hash(with_sorted_rows(matrix, {}), !pattern_only);
}

Bundle::Impl::Impl(BundleFile file_in) : file(std::move(file_in)) {
  const BundleIndex& index = file.index();
  entries.reserve(index.kernels.size());
  for (const BundleKernel& kernel : index.kernels) {
    try {
      entries.push_back(bundle_entry_of(kernel, index));
    } catch (const Error& error) {
      throw IoError(
          fmt::format("{}: kernel {}: {}", file.path().string(), entries.size(), error.what()));
    }
  }
}

const BundleKernel& Bundle::Impl::kernel(std::size_t entry) const {
  const std::vector<BundleKernel>& kernels = file.index().kernels;
  if (entry < kernels.size()) return kernels[entry];
  throw InvalidArgument(fmt::format("{}: there is no entry {}; expected 0 to {}",
                                    file.path().string(), entry,
                                    static_cast<std::int64_t>(kernels.size()) - 1));
}

Bundle::Bundle(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Bundle Bundle::open(const std::filesystem::path& path, const BundleOptions& options) {
  const BundleTrust trust{.key = read_public_key(options.public_key),
                          .any_owner = options.any_owner};
  return Bundle(std::make_shared<const Impl>(BundleFile::open(path, trust)));
}

const std::filesystem::path& Bundle::path() const noexcept { return impl_->file.path(); }

const std::vector<BundleEntry>& Bundle::entries() const noexcept { return impl_->entries; }

bool Bundle::is_signed() const noexcept { return impl_->file.signature().has_value(); }

std::optional<std::size_t> Bundle::find(std::string_view layer,
                                        const std::optional<Target>& target) const {
  return best_of(*this, target, [&](const BundleEntry& entry) { return entry.layer == layer; });
}

std::optional<std::size_t> Bundle::find(const Problem& problem,
                                        const std::optional<Target>& target) const {
  const Problem wanted = checked_problem(problem);
  const std::string weights = matrix_hash(*wanted.a, !wanted.runtime_values);
  const nlohmann::json scales = group_scales_json(wanted.group_scales.get());
  return best_of(*this, target, [&](const BundleEntry& entry) {
    if (entry.weights != weights) return false;
    const nlohmann::json made = parse_json(entry.problem);
    return made.value("group_scales", nlohmann::json()) == scales &&
           is_same_problem(read_problem(made, wanted.a, {}, wanted.group_scales), wanted);
  });
}

Kernel Bundle::load(std::size_t entry, const BundleLoad& load) const {
  const BundleKernel& kernel = impl_->kernel(entry);
  const HostDevice device{thread_pool_of({load.threads, load.parallel_for})};
  auto loaded = load_kernel_files(impl_->file.read(kernel), kernel.record, device);
  loaded->info.key = kernel.key;
  return Kernel(std::move(loaded));
}

std::string Bundle::record(std::size_t entry) const { return impl_->kernel(entry).record.dump(2); }

void Bundle::verify() const { impl_->file.verify(); }

}  // namespace spjit
