#pragma once

/// @file
/// ONNX Runtime, loaded at run time: sessions of one input X and one output Y, all on one pool of
/// threads.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/peer.hpp"

namespace spjit::side_by_side {

/// Floats in memory, row-major; borrowed.
struct OnnxTensor {
  float* data = nullptr;
  std::vector<std::int64_t> shape;
};

/// Copies share the library. Used by one thread.
class OnnxRuntime {
 public:
  struct Loaded;

  /// Loads libonnxruntime.so.1 of that folder, of an empty one from the loader's places. Where it
  /// is absent or too old: `library` is empty and `reason` says what is missing and how to get it.
  [[nodiscard]] static Loaded load(const std::filesystem::path& folder);

  /// "1.17.0".
  [[nodiscard]] const std::string& version() const noexcept;

  /// A session of the model (onnx_model.hpp), whose run() computes `y` from `x`. Its graph is
  /// optimized as far as ONNX Runtime goes by default, which is all the way. Throws Error with what
  /// ONNX Runtime says; NotSupported while sessions of another number of threads exist.
  [[nodiscard]] std::unique_ptr<Runnable> prepare(const std::string& model, int threads,
                                                  const OnnxTensor& x, const OnnxTensor& y) const;

 private:
  struct Library;
  explicit OnnxRuntime(std::shared_ptr<Library> library) : library_(std::move(library)) {}

  std::shared_ptr<Library> library_;
};

struct OnnxRuntime::Loaded {
  std::optional<OnnxRuntime> library;
  std::string reason;  ///< empty: loaded
};

}  // namespace spjit::side_by_side
