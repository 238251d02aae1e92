#include "matrix/tensor_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/file_bytes.hpp"
#include "matrix/file_names.hpp"
#include "matrix/half_float.hpp"
#include "matrix/model_index.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

/// Elements that are in memory at once, beside what is made of them.
constexpr std::int64_t k_piece = 1 << 14;

void read_from(const FileDescriptor& file, const std::string& name, std::int64_t offset,
               std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail_to_read(name, fmt::format("cannot read: {}", std::generic_category().message(errno)));
    }
    if (got == 0) fail_to_read(name, "was cut short while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

float as_fp32(Half number) { return to_float(number); }
float as_fp32(Bfloat number) { return to_float(number); }
template <class Number>
requires std::is_arithmetic_v<Number>
float as_fp32(Number number) { return static_cast<float>(number); }

}  // namespace

TensorFile::TensorFile(std::string name, std::int64_t file_bytes, ReadAt read_at)
    : name_(std::move(name)), file_bytes_(file_bytes), read_at_(std::move(read_at)) {
  std::string length(
      static_cast<std::size_t>(std::min(file_bytes_, std::int64_t{k_safetensors_length_bytes})),
      '\0');
  read_at_(0, std::as_writable_bytes(std::span(length)));
  std::string text(to_size(safetensors_header_bytes(length, file_bytes_, name_)), '\0');
  read_at_(k_safetensors_length_bytes, std::as_writable_bytes(std::span(text)));
  header_ = parse_safetensors_header(text, file_bytes_, name_);
}

TensorFile::TensorFile(std::string name, std::int64_t file_bytes, ReadAt read_at,
                       SafetensorsHeader header)
    : name_(std::move(name)),
      file_bytes_(file_bytes),
      read_at_(std::move(read_at)),
      header_(std::move(header)) {}

/// The files lie one behind another, as if they were one.
TensorFile TensorFile::open_index(const std::filesystem::path& path, const std::string& name) {
  struct Part {
    std::int64_t begin;
    TensorFile file;
  };
  const ModelIndex index = read_model_index(path);
  const auto parts = std::make_shared<std::vector<Part>>();
  SafetensorsHeader header{{}, index.metadata};
  std::int64_t end = 0;
  for (const auto& [file, tensors] : index.tensors) {
    const std::filesystem::path where = path.parent_path() / file;
    const TensorFile& part = parts->emplace_back(Part{end, open(where, where.string())}).file;
    for (const std::string& tensor : tensors) {
      const Tensor* found = part.find(tensor);
      if (found == nullptr) {
        fail_to_read(name, fmt::format("it lists tensor {} in {}, which does not have it",
                                       quoted_word(tensor), quoted_word(file)));
      }
      header.tensors.push_back(*found);
      header.tensors.back().begin = checked_add(end, found->begin, "offset of a tensor");
    }
    end = checked_add(end, part.bytes(), "bytes of a model");
  }
  std::ranges::sort(header.tensors, is_before_by_number, &Tensor::name);
  const auto read_at = [parts](std::int64_t offset, std::span<std::byte> bytes) {
    const auto next = std::ranges::upper_bound(*parts, offset, {}, &Part::begin);
    const Part& part = *(next - 1);
    part.file.read_at_(offset - part.begin, bytes);
  };
  return {name, end, read_at, std::move(header)};
}

TensorFile TensorFile::open(const std::filesystem::path& path, const std::string& name) {
  if (is_model_index(path)) return open_index(path, name);
  const auto file = std::make_shared<OpenFile>(open_regular_file(path));
  return {name, file->bytes, [file, name](std::int64_t offset, std::span<std::byte> bytes) {
            read_from(file->descriptor, name, offset, bytes);
          }};
}

TensorFile TensorFile::of_bytes(Bytes bytes, const std::string& name) {
  return {name, std::ssize(bytes), [bytes](std::int64_t offset, std::span<std::byte> copy) {
            std::ranges::copy(bytes.subspan(to_size(offset), copy.size()), copy.begin());
          }};
}

const Tensor* TensorFile::find(std::string_view tensor) const noexcept {
  const auto& all = header_.tensors;
  const auto found = std::ranges::lower_bound(all, tensor, is_before_by_number, &Tensor::name);
  return found != all.end() && found->name == tensor ? &*found : nullptr;
}

std::string TensorFile::metadata(const std::string& key) const {
  const auto found = header_.metadata.find(key);
  return found == header_.metadata.end() ? "" : found->second;
}

void TensorFile::read(const Tensor& tensor, std::int64_t first, std::span<std::byte> bytes) const {
  read_bytes(tensor, first * tensor.item_bytes, bytes);
}

void TensorFile::read_bytes(const Tensor& tensor, std::int64_t begin,
                            std::span<std::byte> bytes) const {
  read_at_(tensor.begin + begin, bytes);
}

void TensorFile::read(const Tensor& tensor, std::int64_t first,
                      std::span<std::int64_t> values) const {
  read(tensor, first, std::as_writable_bytes(values));
}

template <class Element>
void TensorFile::read_as(const Tensor& tensor, std::int64_t first, std::span<float> values) const {
  std::vector<Element> elements(std::min(values.size(), to_size(k_piece)));
  for (std::size_t done = 0; done < values.size(); done += elements.size()) {
    elements.resize(std::min(elements.size(), values.size() - done));
    read(tensor, first + static_cast<std::int64_t>(done),
         std::as_writable_bytes(std::span(elements)));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const float value = as_fp32(elements[i]);
      if constexpr (std::is_same_v<Element, double>) {
        if (std::isfinite(elements[i]) && std::isinf(value)) {
          fail_to_read(name_,
                       fmt::format("tensor {}: element {} is {}, which does not fit fp32: "
                                   "expected at most 3.4028235e38",
                                   quoted_word(tensor.name),
                                   first + static_cast<std::int64_t>(done + i), elements[i]));
        }
      }
      values[done + i] = value;
    }
  }
}

void TensorFile::read(const Tensor& tensor, std::int64_t first, std::span<float> values) const {
  if (tensor.dtype == "F32") return read(tensor, first, std::as_writable_bytes(values));
  if (tensor.dtype == "F16") return read_as<Half>(tensor, first, values);
  if (tensor.dtype == "BF16") return read_as<Bfloat>(tensor, first, values);
  if (tensor.dtype == "F64") return read_as<double>(tensor, first, values);
  if (tensor.dtype == "I8") return read_as<std::int8_t>(tensor, first, values);
  if (tensor.dtype == "U8" || tensor.dtype == "BOOL") {
    return read_as<std::uint8_t>(tensor, first, values);
  }
  fail_to_read(name_, fmt::format("tensor {} is {}: expected F32, F16, BF16 or F64",
                                  quoted_word(tensor.name), quoted_word(tensor.dtype)));
}

bool TensorFile::is_float(const Tensor& tensor) noexcept {
  constexpr std::array<std::string_view, 4> k_types = {"F32", "F16", "BF16", "F64"};
  return std::ranges::find(k_types, tensor.dtype) != k_types.end();
}

bool TensorFile::is_mask(const Tensor& tensor) noexcept {
  constexpr std::array<std::string_view, 3> k_types = {"BOOL", "I8", "U8"};
  return is_float(tensor) || std::ranges::find(k_types, tensor.dtype) != k_types.end();
}

void for_each_piece(const TensorFile& file, const Tensor& tensor,
                    FunctionRef<void(std::int64_t, std::span<const float>)> look) {
  std::vector<float> piece(to_size(std::min(tensor.count, k_piece)));
  for (std::int64_t first = 0; first < tensor.count; first += k_piece) {
    piece.resize(to_size(std::min(tensor.count - first, k_piece)));
    file.read(tensor, first, std::span(piece));
    look(first, piece);
  }
}

}  // namespace spjit
