#include "matrix/safetensors_writer.hpp"

#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

/// Where the elements begin is a multiple of it, as other libraries write it.
constexpr std::int64_t k_alignment = 8;

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t end = checked_add(begin, tensor.bytes, "bytes of a model");
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.resize(to_size(round_up(std::ssize(text), k_alignment)), ' ');
  const std::uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(std::as_bytes(std::span(text)));
}

}  // namespace spjit
