#include "kernels/cuda/cuda_family.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/gzip.hpp"
#include "kernels/cuda/launch/cuda_executable.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "spjit/error.hpp"

namespace spjit {

bool CudaFamily::takes_in_place(const Artifact::File& file) const {
  return file.name == k_cubin_file && !is_cubin(file.bytes);
}

LoadedKernel CudaFamily::load(const Artifact& artifact, const nlohmann::json& record,
                              const Device& device, const Cancellation& cancel) const {
  cancel.check();
  if (!record.is_object() || !record.contains("program")) {
    throw Error(
        "the record of a CUDA kernel is no JSON object with a \"program\"; expected what "
        "Kernel::record() or spjit compile --emit json gave");
  }
  return open({artifact, artifact.file(k_cubin_file), record, record.at("program"),
               std::get_if<GpuDevice>(&device), cancel});
}

Artifact::File owned_file(const char* name, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {name, *owner, owner};
}

std::vector<Artifact::File> cuda_files(const std::string& cubin, const CudaTexts& texts,
                                       const FamilyRequest& what) {
  const auto image = std::as_bytes(std::span(cubin));
  std::vector<Artifact::File> files;
  files.push_back(owned_file(k_cubin_file, {image.begin(), image.end()}));
  if (!what.options.keep_source) return files;
  files.push_back(owned_file(k_cuda_file, gzip(texts.cuda_source, what.cancel)));
  files.push_back(owned_file(k_ptx_file, gzip(texts.ptx, what.cancel)));
  return files;
}

}  // namespace spjit
