#pragma once

/// @file
/// Where peers lie: as scripts/build/setup_peers.sh puts them, or as options say.

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bench/side_by_side/peers.hpp"

namespace spjit::side_by_side {

/// The folders of a repository.
[[nodiscard]] inline PeerSettings settings_of(const std::filesystem::path& repository) {
  const std::filesystem::path peers = repository / "build/peers";
  PeerSettings settings;
  settings.mkl_folder = peers / "mkl/lib";
  settings.onnxruntime_folder = peers / "onnxruntime/lib";
  settings.onednn_folder = peers / "onednn/lib";
  settings.pythons = {(peers / "scipy/bin/python3").string(), "python3"};
  return settings;
}

/// Refers to `settings`.
inline void add_mkl_folder(CLI::App& app, PeerSettings& settings) {
  app.add_option("--mkl", settings.mkl_folder, "Folder with libmkl_rt.so");
}

/// oneDNN and ONNX Runtime. Refers to `settings`.
inline void add_dense_folders(CLI::App& app, PeerSettings& settings) {
  app.add_option("--onednn", settings.onednn_folder, "Folder with libdnnl.so.3");
  app.add_option("--onnxruntime", settings.onnxruntime_folder, "Folder with libonnxruntime.so.1");
}

}  // namespace spjit::side_by_side
