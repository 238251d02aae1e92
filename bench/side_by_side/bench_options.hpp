#pragma once

/// @file
/// Options of side_by_side_bench. --help lists them.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/run_options.hpp"
#include "bench/side_by_side/case_sets.hpp"
#include "bench/side_by_side/measure_case.hpp"
#include "bench/side_by_side/peers.hpp"

namespace spjit::side_by_side {

struct Options : bench::RunOptions {
  SetOptions sets;
  std::vector<std::string> set = {"dlmc"};
  std::vector<std::string> only;  ///< parts of names; empty: all matrices
  std::vector<int> threads = {1, 2};
  std::vector<std::string> peers;  ///< empty: all
  std::optional<int> gpu;          ///< its ordinal; empty: the host
  std::string target = "host";
  std::string search = "instant";
  PeerSettings settings;
  MeasureOptions measure;
  std::optional<std::uint64_t> shuffle;  ///< seed of the matrices' order; empty: as listed
  bool rehearse = false;                 ///< with `gpu`: checks on the emulated driver
  bool is_cold = false;                  ///< with `gpu`: A comes from DRAM
  std::filesystem::path cubins;          ///< folder with cubins for `gpu`; empty: they are compiled
  std::filesystem::path precompile;      ///< folder to compile them into for `target`, only that
  std::string command;
};

/// With the places of data and libraries that belong to a repository.
[[nodiscard]] Options default_options(const std::filesystem::path& repository);

/// Refers to `options`.
void add_options(CLI::App& app, Options& options);

}  // namespace spjit::side_by_side
