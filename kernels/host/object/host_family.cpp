#include "kernels/host/object/host_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/built_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/operation.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Whether the text now runs where it is. On a file system that is mounted noexec it cannot.
bool make_executable(PageMapping& pages, std::span<const std::byte> text) {
  const std::size_t begin = to_size(text.data() - pages.bytes().data());
  if (text.empty() || begin % PageMapping::page_size() != 0) return false;
  try {
    pages.protect(begin, PageMapping::round_up(text.size()), PageAccess::read_execute);
    return true;
  } catch (const NoPages&) {
    return false;
  }
}

}  // namespace

std::string HostFamily::version() const { return std::to_string(k_host_program_version); }

LoadedKernel HostFamily::load(const Artifact& artifact, const nlohmann::json& record,
                              const Device& device, const Cancellation& cancel) const {
  static_cast<void>(host_of(device));
  const auto found = std::ranges::find(artifact.files, k_object_file, &Artifact::File::name);
  if (found == artifact.files.end()) {
    throw Error(fmt::format("the artifact has no file \"{}\"", k_object_file));
  }
  static_cast<void>(record);
  return open(object_on(device, read_object(found->bytes, k_object_name), found->owner), cancel);
}

const HostDevice& HostFamily::host_of(const Device& device) const {
  const auto* host = std::get_if<HostDevice>(&device);
  if (host != nullptr) return *host;
  throw InvalidArgument(fmt::format("a kernel of the family {} runs on the host", name()));
}

HostObject HostFamily::object_on(const Device& device, const HostImage& image,
                                 std::shared_ptr<const void> owner, bool executable) const {
  const HostDevice& host = host_of(device);
  return {image, std::move(owner), host.pool, executable, host.any_isa};
}

KernelInfo HostFamily::info_of(const HostProgramHeader& header, const HostObject& object) const {
  if (header.family != name()) {
    throw Error(fmt::format("program record: a kernel of the family {}; expected one of {}",
                            header.family, name()));
  }
  require_record(!header.runtime_n || features().has(ProblemFeature::runtime_n),
                 "a run-time n, which its family does not know");
  const ProblemFeatures operation = {rules_of(header.convolution).feature()};
  if (!operation.without(features()).empty()) {
    require_record(false, (to_string(operation) + ", which its family does not know").c_str());
  }
  require_record(header.group_columns == 0 || features().has(ProblemFeature::group_scales),
                 "scales of groups, which its family does not know");
  require_record(!numerics_refusal(header.numerics),
                 "types or sums that its family does not compute");
  if (!object.any_isa) require_isa(host_cpu(), header.isa);
  KernelInfo info;
  info.family = header.family;
  info.target = Target(header.isa);
  info.device = host_cpu().model_name;
  info.rows = header.rows;
  info.cols = header.cols;
  info.n = header.n;
  info.runtime_n = header.runtime_n;
  info.ldb = header.ldb;
  info.b_layout = header.b_layout;
  info.c_layout = header.c_layout;
  info.epilogue = header.epilogue;
  info.ldc = header.ldc;
  info.nnz = header.nnz;
  info.runtime_values = header.runtime_values;
  info.convolution = header.convolution;
  info.numerics = header.numerics;
  info.group_columns = header.group_columns;
  info.threads = object.pool == nullptr ? 1 : object.pool->threads();
  info.code_bytes = std::ssize(object.image.text);
  info.weight_bytes = std::ssize(object.image.weights);
  return info;
}

Refusal LayerFamily::numerics_refusal(const Numerics& numerics) const {
  Numerics others = numerics;
  if (others.a != DataType::i32) others.a = DataType::f32;
  if (is_half(others.b)) others.b = DataType::f32;
  if (is_narrow(others.c)) others.c = DataType::f32;
  return beyond_default(others);
}

Artifact::File object_file(const HostImage& image, const Cancellation& cancel) {
  const std::uint64_t alignment = image.text.empty() ? k_linked_alignment : k_mapped_alignment;
  auto bytes = std::make_shared<const std::vector<std::byte>>(
      write_object(image, k_object_name, cancel, alignment));
  return {k_object_file, *bytes, bytes};
}

nlohmann::json image_record(const HostImage& image) {
  return {{"code_bytes", image.text.size()}, {"weight_bytes", image.weights.size()}};
}

std::vector<Artifact::File> BuiltImage::files(const Cancellation& cancel) const {
  return {object_file(artifact_.image(), cancel)};
}

LoadedKernel BuiltImage::load(const nlohmann::json& record, const Device& device,
                              const Cancellation& cancel) const {
  static_cast<void>(record);
  return family_.open(family_.object_on(device, artifact_.image(), shared_from_this()), cancel);
}

MappedImage::MappedImage(const HostFamily& family, FileBytes file)
    : family_(family),
      file_(std::move(file)),
      image_(read_object(file_.bytes(), k_object_name)),
      executable_(make_executable(file_.pages, image_.text)) {}

std::vector<Artifact::File> MappedImage::files(const Cancellation& cancel) const {
  cancel.check();
  return {{k_object_file, file_.bytes(), shared_from_this()}};
}

LoadedKernel MappedImage::load(const nlohmann::json& record, const Device& device,
                               const Cancellation& cancel) const {
  static_cast<void>(record);
  return family_.open(family_.object_on(device, image_, shared_from_this(), executable_), cancel);
}

Refusal unread_refusal(const CsrMatrix& a) {
  if (!is_mostly_unread(a.cols, a.nnz())) return Refusal::none();
  return Refusal(fmt::format("B has {} rows, and {} nonzeros read few of them; it is not copied",
                             a.cols, a.nnz()));
}

BuiltKernel build_csr(const BuildRequest& request, const HostFamily& family) {
  const FamilyRequest& what = request.what;
  HostArtifact artifact = make_csr_artifact(what.problem, std::string(family.name()),
                                            what.options.target.isa(), what.cancel);
  BuiltKernel built;
  built.record = image_record(artifact.image());
  built.code = std::make_shared<const BuiltImage>(family, std::move(artifact));
  return built;
}

}  // namespace spjit
