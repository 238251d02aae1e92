#pragma once

/// @file
/// Options of lab_bench. --help lists them.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/lab/sequence.hpp"
#include "bench/run_options.hpp"
#include "bench/side_by_side/peers.hpp"

namespace spjit::bench {

struct LabOptions : RunOptions {
  std::string kind;
  std::filesystem::path data;
  std::filesystem::path networks;  ///< folders of scripts/data/make_networks.sh
  std::vector<std::string> only;   ///< parts of names; empty: all workloads
  std::vector<std::int64_t> n;     ///< columns of B: tokens, images; `layer`: empty: all
  std::vector<int> threads = {1, 2};
  std::vector<int> sparsities = {80, 90, 95};  ///< `conv`
  std::vector<std::string> comparisons = {};   ///< `layer`; empty: all
  std::vector<std::string> peers = {};
  std::vector<std::string> families = {};
  side_by_side::PeerSettings settings = {};
  SequenceOptions timing = {};
  bool hot = false;
  std::string command;
};

[[nodiscard]] std::vector<std::string> all_kinds();

/// Those of `kind`, with the places of data and libraries that belong to a repository.
[[nodiscard]] LabOptions default_options(const std::string& kind,
                                         const std::filesystem::path& repository);

/// Those that the kind has. Refers to `options`.
void add_options(CLI::App& app, LabOptions& options);

}  // namespace spjit::bench
