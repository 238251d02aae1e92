#include "kernels/host_family.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/host_cpu.hpp"
#include "runtime/host/host_isa.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::string HostFamily::version() const { return std::to_string(k_host_program_version); }

LoadedKernel HostFamily::load(const Artifact& artifact, const nlohmann::json& record,
                              const Device& device, const Cancellation& cancel) const {
  const auto* host = std::get_if<HostDevice>(&device);
  if (host == nullptr) {
    throw InvalidArgument(fmt::format("a kernel of the family {} runs on the host", name()));
  }
  const auto found = std::ranges::find(artifact.files, k_object_file, &Artifact::File::name);
  if (found == artifact.files.end()) {
    throw Error(fmt::format("the artifact has no file \"{}\"", k_object_file));
  }
  static_cast<void>(record);
  return open({read_object(found->bytes, k_object_name), found->owner, host->pool}, cancel);
}

Artifact object_artifact(const HostImage& image, const Cancellation& cancel) {
  Artifact artifact;
  artifact.add(k_object_file, write_object(image, k_object_name, cancel));
  return artifact;
}

KernelInfo info_of(const HostProgramHeader& header, const HostObject& object) {
  require_isa(host_cpu(), header.isa);
  KernelInfo info;
  info.family = header.family;
  info.target = Target(header.isa);
  info.device = host_cpu().model_name;
  info.rows = header.rows;
  info.cols = header.cols;
  info.n = header.n;
  info.runtime_n = header.runtime_n;
  info.ldb = header.ldb;
  info.ldc = header.ldc;
  info.nnz = header.nnz;
  info.threads = object.pool == nullptr ? 1 : object.pool->threads();
  info.code_bytes = std::ssize(object.image.text);
  info.weight_bytes = std::ssize(object.image.weights);
  return info;
}

}  // namespace spjit
