#pragma once

/// @file
/// Tensors of a `.safetensors` file, or of the files that an index lists, read when they are asked
/// for.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "matrix/npy_header.hpp"
#include "matrix/safetensors_header.hpp"

namespace spjit {

/// Only the header is in memory. Reading is thread-safe. Every function that reads throws IoError.
class TensorFile {
 public:
  /// `name` is what messages call the file. Of an index (is_model_index()) the tensors that it
  /// lists, each of the file that it names: others that lie there are not seen.
  [[nodiscard]] static TensorFile open(const std::filesystem::path& path, const std::string& name);
  /// Refers to `bytes`.
  [[nodiscard]] static TensorFile of_bytes(Bytes bytes, const std::string& name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return file_bytes_; }
  /// Ascending by name, numbers in names by their size.
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return header_.tensors; }
  /// Null if there is none.
  [[nodiscard]] const Tensor* find(std::string_view tensor) const noexcept;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept {
    return header_.metadata;
  }
  /// A text of the header's metadata; empty if there is none.
  [[nodiscard]] std::string metadata(const std::string& key) const;

  /// Elements from `first` on as fp32, of dtype F32, F16 and BF16 exactly, F64 rounded, BOOL, I8
  /// and U8 as integers. Throws also for a finite number that does not fit fp32.
  void read(const Tensor& tensor, std::int64_t first, std::span<float> values) const;
  /// Elements of dtype I64.
  void read(const Tensor& tensor, std::int64_t first, std::span<std::int64_t> values) const;
  /// Bytes of elements as they lie in the file.
  void read(const Tensor& tensor, std::int64_t first, std::span<std::byte> bytes) const;
  /// Bytes of a tensor of any dtype, from its byte `begin` on.
  void read_bytes(const Tensor& tensor, std::int64_t begin, std::span<std::byte> bytes) const;

  /// Whether read() has floats of the dtype: F32, F16, BF16, F64.
  [[nodiscard]] static bool is_float(const Tensor& tensor) noexcept;
  /// Whether it has the numbers of a mask: these, BOOL, I8 and U8.
  [[nodiscard]] static bool is_mask(const Tensor& tensor) noexcept;

 private:
  using ReadAt = std::function<void(std::int64_t offset, std::span<std::byte>)>;

  TensorFile(std::string name, std::int64_t file_bytes, ReadAt read_at);
  TensorFile(std::string name, std::int64_t file_bytes, ReadAt read_at, SafetensorsHeader header);

  [[nodiscard]] static TensorFile open_index(const std::filesystem::path& path,
                                             const std::string& name);

  template <class Element>
  void read_as(const Tensor& tensor, std::int64_t first, std::span<float> values) const;

  std::string name_;
  std::int64_t file_bytes_;
  ReadAt read_at_;
  SafetensorsHeader header_;
};

/// Calls `look` with all elements of a tensor in their order, some thousands at once: the index of
/// the first, and them. Throws as TensorFile::read().
void for_each_piece(const TensorFile& file, const Tensor& tensor,
                    FunctionRef<void(std::int64_t, std::span<const float>)> look);

}  // namespace spjit
