#include "spjit/matrix_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "base/file_bytes.hpp"
#include "matrix/compressed_text.hpp"
#include "matrix/file_names.hpp"
#include "matrix/limits.hpp"
#include "matrix/npy_reader.hpp"
#include "matrix/readers.hpp"
#include "matrix/text_lines.hpp"
#include "matrix/writers.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

[[noreturn]] void fail_extension(const std::filesystem::path& path, const std::string& known) {
  throw IoError(fmt::format("{}: unknown extension {}: expected {}", path.string(),
                            quoted_word(path.extension().string()), known));
}

/// What a user can do with files that others write.
std::string advice_for(const std::string& extension, const std::string& name) {
  constexpr std::array k_checkpoints = {".pth", ".pt", ".bin", ".ckpt"};
  if (extension == ".spjit") {
    return "; it is a bundle of kernels, which need no matrix: 'spjit bundle ls' lists them, and "
           "Bundle::load() of C++, spjit_bundle_load() of C and spjit.Bundle of Python load one";
  }
  if (std::ranges::find(k_checkpoints, extension) != k_checkpoints.end()) {
    return fmt::format(
        "; a checkpoint of PyTorch becomes .safetensors, whose layers 'spjit compile' takes, by: "
        "python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{}', 'cpu', "
        "weights_only=True), 'model.safetensors')\"; in Python spjit.torch.optimize_() takes the "
        "model itself",
        name);
  }
  if (extension == ".gguf") {
    return fmt::format(
        "; a GGUF model becomes .safetensors, whose layers 'spjit compile' takes, by: python -c "
        "\"import transformers as t; t.AutoModelForCausalLM.from_pretrained('.', "
        "gguf_file='{}').save_pretrained('model')\"",
        name);
  }
  return {};
}

/// A model has several matrices. Says who takes its file.
[[noreturn]] void fail_as_model(const std::filesystem::path& path, bool is_onnx) {
  throw IoError(fmt::format(
      "{}: it is a model: expected the file of one matrix; {}", path.string(),
      is_onnx ? "'python -m spjit compile' compiles its layers, and spjit.onnx.optimize() of "
                "Python puts their kernels into it"
              : "'spjit compile' compiles its layers; load_weights() of C++, "
                "spjit_matrix_load_weights() of C and safetensors.numpy.load_file() of Python "
                "read one of them"));
}

[[noreturn]] void fail_to_know(const std::filesystem::path& path, const std::string& extension) {
  std::error_code none;
  // Without an extension it is more often a slip, or a folder.
  if (extension.empty() && !std::filesystem::is_regular_file(path, none)) {
    throw IoError(fmt::format(
        "{}: {}; expected a file", path.string(),
        std::filesystem::is_directory(path, none) ? "is a folder" : "there is no such file"));
  }
  const std::string name = path.filename().string();
  if (extension == ".onnx" || extension == ".safetensors" || is_model_index(name)) {
    fail_as_model(path, extension == ".onnx");
  }
  const std::string known =
      ".smtx, .mtx (both also with .gz), .npy or .npz; of the command line also a model, "
      ".safetensors, .safetensors.index.json or .onnx";
  fail_extension(path, known + advice_for(extension, name));
}

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Runs out of memory with one line that names the file and what there was to read.
template <class Read>
auto within_memory(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  throw IoError(fmt::format(
      "{}: out of memory: the file has {} bytes, and reading takes up to 16 more for each of them "
      "and 8 for each row; free memory, or allow more of it",
      path.string(), error ? 0 : bytes));
}

CsrMatrix read_matrix(const std::filesystem::path& path, const LoadOptions& options) {
  const std::string extension = matrix_extension(path);
  const std::string name = path.string();
  if (extension == ".smtx.gz") {
    return parse_smtx(read_compressed_text(path, numbers_of_smtx), name, options);
  }
  if (extension == ".mtx.gz") {
    return parse_mtx(read_compressed_text(path, numbers_of_mtx), name, options);
  }
  if (extension == ".smtx") {
    return parse_smtx(as_text(read_file(path)), name, options);
  }
  if (extension == ".mtx") {
    return parse_mtx(as_text(read_file(path)), name, options);
  }
  if (extension == ".npy") {
    return parse_npy(read_file(path), name, options);
  }
  if (extension == ".npz") {
    return parse_npz(read_file(path), name, options);
  }
  fail_to_know(path, extension);
}

DenseMatrix read_dense(const std::filesystem::path& path, const std::string& name) {
  const std::string extension = lower_extension(path);
  if (extension == ".npz") {
    return parse_npz_dense(read_file(path), path.string(), name);
  }
  if (extension != ".npy") {
    fail_extension(path, ".npy or .npz");
  }
  if (!name.empty()) {
    throw IoError(fmt::format("{}: array {} was asked for: a .npy holds one array without a name",
                              path.string(), quoted_word(name)));
  }
  const std::vector<std::byte> bytes = read_file(path);
  return decode_dense(parse_npy_array(bytes, path.string()), path.string());
}

}  // namespace

CsrMatrix load_matrix(const std::filesystem::path& path, const LoadOptions& options) {
  return within_memory(path, [&] { return read_matrix(path, options); });
}

void save_matrix(const CsrMatrix& matrix, const std::filesystem::path& path,
                 const SaveOptions& options) {
  const std::string extension = lower_extension(path);
  if (extension != ".mtx" && extension != ".npz") {
    fail_extension(path, ".mtx or .npz");
  }
  matrix.validate();
  if (extension == ".mtx") {
    const std::string text = format_mtx(matrix);
    publish_file(path, std::as_bytes(std::span(text)));
  } else {
    publish_file(path, format_npz(matrix, options.compress, path.string()));
  }
}

DenseMatrix load_dense(const std::filesystem::path& path, const std::string& name) {
  return within_memory(path, [&] { return read_dense(path, name); });
}

void save_dense(const DenseMatrix& matrix, const std::filesystem::path& path) {
  static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");
  if (lower_extension(path) != ".npy") {
    fail_extension(path, ".npy");
  }
  const bool has_sizes = matrix.rows >= 0 && matrix.rows <= k_max_dimension && matrix.cols >= 0 &&
                         matrix.cols <= k_max_dimension;
  const std::size_t expected =
      has_sizes ? static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.cols) : 0;
  if (!has_sizes || matrix.values.size() != expected) {
    throw InvalidArgument(fmt::format("save_dense was given {} values for {} x {}: expected {}",
                                      matrix.values.size(), matrix.rows, matrix.cols, expected));
  }
  publish_file(path, make_npy("<f4", fmt::format("({}, {})", matrix.rows, matrix.cols),
                              std::as_bytes(std::span(matrix.values))));
}

}  // namespace spjit
